"""Real servers: nothing has a default that could be mistaken for a secret."""

from controlplane.settings.base import *  # noqa: F403
