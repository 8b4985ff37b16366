"""One machine, everything bundled: what `bin/up` runs."""

from controlplane.embedded.home import Home, secret_of
from controlplane.env import env
from controlplane.settings.base import *  # noqa: F403

SECRET_KEY = env.secret_key or secret_of(Home(env.home))
