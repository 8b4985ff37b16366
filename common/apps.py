from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from common import app_config


def plant_audit_head(sender: AppConfig, using: str, **_: Any) -> None:
    sender.get_model("AuditHead")._default_manager.using(using).get_or_create(pk=1)


def plant_singletons(sender: AppConfig, using: str, **_: Any) -> None:
    from common.reconcile import kernel

    kernel.plant(sender.label, using)


class CommonConfig(app_config.WithManifest):
    name = "common"

    def ready(self) -> None:
        super().ready()
        post_migrate.connect(plant_audit_head, sender=self)
        post_migrate.connect(plant_singletons)
