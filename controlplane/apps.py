from django.conf import settings

from common import app_config
from common.logs.redaction import hide
from controlplane.env import env, secrets_of


class ControlPlaneConfig(app_config.WithManifest):
    name = "controlplane"
    verbose_name = "Slipway"

    def ready(self) -> None:
        from controlplane import celery  # noqa: F401  # makes the Celery app the one that tasks bind to

        super().ready()
        hide({*secrets_of(env), settings.SECRET_KEY, settings.SLIPWAY_AUDIT_KEY})
