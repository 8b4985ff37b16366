from controlplane.settings.production import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.production.next_release.apps.NextRelease"]  # noqa: F405
MIGRATION_MODULES = {"releases": "tests.production.next_release.releases_migrations"}
SLIPWAY_VERSION = "0.3.0"
