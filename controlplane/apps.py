from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Slipway"

    def ready(self) -> None:
        from controlplane import wiring

        wiring.connect()
