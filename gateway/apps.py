from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class GatewayConfig(AppConfig):
    name = "gateway"

    def ready(self) -> None:
        from common.pages import subjects
        from common.reconcile import kernel
        from gateway.reconcilers import KeepGateway, KeepTraffic

        kernel.register(KeepGateway())
        kernel.register(KeepTraffic())
        subjects.offer("gateway.watch", _("Gateway"), "/fleet/", title=_("Gateway"))
        subjects.offer("gateway.recorder", _("Traffic figures"), "/fleet/", title=_("Traffic figures"))
        subjects.offer("gateway.route", _("Route"))
