"""Real servers: nothing has a default that could be mistaken for a secret."""

from controlplane.env import require
from controlplane.settings.base import *  # noqa: F403

require("secret_key", "audit_key", "database_url", "redis_url")
