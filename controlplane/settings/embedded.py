"""One machine, everything bundled: what `bin/up` runs."""

from controlplane.settings.base import *  # noqa: F403
