from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import login
        from accounts.api import authentication  # noqa: F401  (registers how the schema shows it)
        from accounts.finder import find_people
        from accounts.pruning import RULES
        from accounts.reconcilers import AuditExportReconciler, EndpointReconciler, EventReconciler
        from common.pages import search, subjects
        from common.reconcile import kernel, pruning

        subjects.offer("accounts.user", _("Person"), "/settings/people/{username}/")
        subjects.offer("accounts.team", _("Team"), "/settings/teams/{name}/")
        subjects.offer("accounts.apitoken", _("API token"), "/settings/tokens/?q={prefix}")
        subjects.offer("accounts.webhookendpoint", _("Webhook"), "/settings/webhooks/{pk}/")
        subjects.offer(
            "accounts.webhookevent", _("Webhook event"), "/settings/webhooks/", title=_("Event %(type)s")
        )
        export = _("Export of the audit log")
        subjects.offer("accounts.auditexport", export, "/audit/", title=export)
        login.connect()
        kernel.register(AuditExportReconciler())
        kernel.register(EventReconciler())
        kernel.register(EndpointReconciler())
        pruning.offer(*RULES)
        search.offer("People", find_people)
