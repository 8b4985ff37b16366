from common import app_config


class ControlPlaneConfig(app_config.WithManifest):
    name = "controlplane"
    verbose_name = "Slipway"

    def ready(self) -> None:
        from controlplane import celery, wiring  # noqa: F401  # makes the Celery app the one that tasks bind to

        super().ready()
        wiring.connect()
