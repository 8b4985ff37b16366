from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


def post_rows(sender: AppConfig, using: str, **_: Any) -> None:
    """Set up the rows that keep the gateway to its routes, and record its traffic."""
    from django.utils import timezone

    watch = sender.get_model("Watch")
    watch._default_manager.using(using).get_or_create(pk=1, defaults={"next_at": timezone.now()})
    recorder = sender.get_model("Recorder")
    recorder._default_manager.using(using).get_or_create(pk=1, defaults={"next_at": timezone.now()})


class GatewayConfig(AppConfig):
    name = "gateway"

    def ready(self) -> None:
        from common.reconcile import kernel
        from gateway.reconcilers import KeepGateway, KeepTraffic

        kernel.register(KeepGateway())
        kernel.register(KeepTraffic())
        post_migrate.connect(post_rows, sender=self)
