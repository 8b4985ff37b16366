"""The test suite: fast password hashing, no running parts unless a test starts them."""

from controlplane.settings.base import *  # noqa: F403

SLIPWAY_HOST = "here"
SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ("127.0.0.0/8", "::1/128")
SLIPWAY_LOOPBACK_PROVIDERS = True
SLIPWAY_METRICS = SLIPWAY_API_SCHEMA = "open"
SLIPWAY_ACCESS_LOG = False
SECRET_KEY = "only-for-tests-" + "x" * 40
SLIPWAY_AUDIT_KEY = "only-for-tests-too-" + "x" * 40
# Heads of one test's record would condemn the next one's: who wants one exports it to a home of its own.
SLIPWAY_AUDIT_EXPORT_SECONDS = 86_400
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}  # noqa: F405
INSTALLED_APPS = [*INSTALLED_APPS, "tests.toys"]  # noqa: F405
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":  # noqa: F405
    # A file, as in real life: in memory SQLite does not wait for a lock, so concurrent writers would fail.
    DATABASES["default"]["TEST"] = {"NAME": SLIPWAY_HOME / "test.sqlite3"}  # noqa: F405
else:
    # Each test ends with its connections; what is tested about the pool makes one of its own.
    DATABASES["default"]["OPTIONS"].pop("pool")  # noqa: F405
SLIPWAY_GATEWAY_BACKENDS = {
    "envoy": "gateway.backends.fake",
    "gateway_api": "gateway.backends.gateway_api.configured",
}
SLIPWAY_CLUSTER_BACKENDS = {"embedded": "clusters.backends.fake"}
