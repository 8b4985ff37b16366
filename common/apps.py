from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


def plant_audit_head(sender: AppConfig, using: str, **_: Any) -> None:
    sender.get_model("AuditHead")._default_manager.using(using).get_or_create(pk=1)


def plant_singletons(sender: AppConfig, using: str, **_: Any) -> None:
    from common.reconcile import kernel

    kernel.plant(sender.label, using)


class CommonConfig(AppConfig):
    name = "common"

    def ready(self) -> None:
        from common.api.idempotency import answers_before
        from common.models import IdempotentAnswer, Intent
        from common.pages import subjects
        from common.reconcile import kernel, pruning

        kernel.register(pruning.Prune())
        title = _("Deletion of old records")
        subjects.offer("common.pruning", title, "/models/+store/", title=title)
        pruning.offer(
            pruning.Rule(
                Intent,
                _("Steps in the journal"),
                "SLIPWAY_KEEP_INTENTS_DAYS",
                pruning.finished_intents,
                kept=_("Steps under way, and those of which nobody knows whether they took effect, stay."),
            ),
            pruning.Rule(
                IdempotentAnswer,
                _("Answers to requests with an Idempotency-Key"),
                "SLIPWAY_KEEP_ANSWERS_DAYS",
                answers_before,
            ),
        )
        post_migrate.connect(plant_audit_head, sender=self)
        post_migrate.connect(plant_singletons)
