from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


def plant_audit_export(sender: AppConfig, using: str, **_: Any) -> None:
    from datetime import timedelta

    from django.conf import settings
    from django.utils import timezone

    soon = timezone.now() + timedelta(seconds=settings.SLIPWAY_AUDIT_EXPORT_SECONDS)
    rows = sender.get_model("AuditExport")._default_manager.using(using)
    rows.get_or_create(pk=1, defaults={"next_at": soon})


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import login
        from accounts.api import authentication  # noqa: F401  (registers how the schema shows it)
        from accounts.finder import find_people
        from accounts.reconcilers import AuditExportReconciler, EndpointReconciler, EventReconciler
        from common.pages import search, subjects
        from common.reconcile import kernel

        subjects.offer("accounts.user", _("Person"), "/settings/people/{username}/")
        subjects.offer("accounts.team", _("Team"), "/settings/teams/{name}/")
        subjects.offer("accounts.apitoken", _("API token"), "/settings/tokens/?q={prefix}")
        subjects.offer("accounts.webhookendpoint", _("Webhook"), "/settings/webhooks/{pk}/")
        post_migrate.connect(plant_audit_export, sender=self)
        login.connect()
        kernel.register(AuditExportReconciler())
        kernel.register(EventReconciler())
        kernel.register(EndpointReconciler())
        search.offer("People", find_people)
