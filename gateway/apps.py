from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "gateway"

    def ready(self) -> None:
        from common.reconcile import kernel
        from gateway.reconcilers import KeepGateway, KeepTraffic

        kernel.register(KeepGateway())
        kernel.register(KeepTraffic())
