"""The test suite: fast password hashing, no running parts unless a test starts them."""

from controlplane.settings.base import *  # noqa: F403

SECRET_KEY = "only-for-tests-" + "x" * 40
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
