from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Slipway"

    def ready(self) -> None:
        from common import live
        from controlplane import celery, wiring  # noqa: F401  # makes the Celery app the one that tasks bind to
        from controlplane.home.consumers import HomeTopic

        wiring.connect()
        live.register(HomeTopic())
