"""What people, teams, tokens and webhooks add to the whole."""

from collections.abc import Mapping
from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts import login, metrics, states
from accounts.alert_checks import ALERT_CHECKS
from accounts.api import authentication  # noqa: F401  (registers how the schema shows it)
from accounts.inbox import stuck_rows
from accounts.models import WebhookEndpoint
from accounts.pruning import RULES
from accounts.reconcilers.audit_heads import AuditExportReconciler
from accounts.reconcilers.audit_outputs import AuditOutputReconciler
from accounts.reconcilers.webhooks import EndpointReconciler, WebhookEventReconciler
from accounts.search import find_people
from accounts.services import webhooks
from accounts.services.webhooks import announce
from accounts.states import Right
from accounts.webhook_events import endpoint_payload
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge, Badges
from common.pages.inbox import InboxSource
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem, Tab
from common.pages.subjects import Subject
from common.resealing import SealedColumn
from common.webhooks import catalogue
from common.webhooks.catalogue import WebhookEventType, installation

SUBJECTS = (
    Subject("accounts.user", _("Person"), "/settings/people/{username}/"),
    Subject("accounts.team", _("Team"), "/settings/teams/{name}/"),
    Subject("accounts.apitoken", _("API token"), "/settings/tokens/?q={prefix}"),
    Subject("accounts.webhookendpoint", _("Webhook"), "/settings/webhooks/{pk}/"),
    Subject("accounts.webhookevent", _("Webhook event"), "/settings/webhooks/", title=_("Event %(type)s")),
    Subject(
        "accounts.auditexport", _("Export of the audit log"), "/audit/", title=_("Export of the audit log")
    ),
    Subject(
        "accounts.auditoutput", _("Audit output"), "/audit/", title=_("Output of the audit log to %(place)s")
    ),
)
BADGES: Mapping[str, Badges] = {
    "webhook": {
        "enabled": Badge(_("Enabled"), "good", "circle-check"),
        "failing": Badge(_("Failing"), "warn", "alert-triangle"),
        "disabled": Badge(_("Disabled"), "idle", "circle-off"),
    },
    "delivery": {
        "pending": Badge(_("Queued"), "busy", "progress"),
        "failed": Badge(_("Retrying"), "warn", "refresh"),
        "delivered": Badge(_("Delivered"), "good", "circle-check"),
        "given_up": Badge(_("Given up"), "bad", "circle-x"),
    },
    "token": {
        "active": Badge(_("Active"), "good", "circle-check"),
        "expired": Badge(_("Expired"), "idle", "clock-off"),
        "revoked": Badge(_("Revoked"), "idle", "circle-off"),
    },
}
NAV = (
    NavItem(
        name=_("Audit"),
        path="/audit/",
        icon="history",
        rank=70,
        key="a",
        follows_changes=True,
        right=Right.AUDIT_READ,
    ),
    NavItem(name=_("Settings"), path="/settings/", icon="settings", rank=80, follows_changes=True),
)
TABS = tuple(
    Tab(under="/settings/", name=name, path=f"/settings/{page}/", icon=icon, rank=rank, right=right)
    for rank, name, page, icon, right in (
        (10, _("Account"), "account", "user", ""),
        (20, _("API tokens"), "tokens", "key", ""),
        (30, _("People"), "people", "users", ""),
        (40, _("Teams"), "teams", "users-group", ""),
        (50, _("Webhooks"), "webhooks", "webhook", ""),
    )
)
DESTINATIONS = (
    SearchDestination(
        title=_("Create API token"),
        url="/settings/tokens/+new/",
        icon="key",
        words="new ci secret",
        is_command=True,
    ),
    SearchDestination(
        title=_("New webhook"),
        url="/settings/webhooks/+new/",
        icon="webhook",
        words="create add notify",
        right=Right.WEBHOOKS_WRITE,
        is_command=True,
    ),
    SearchDestination(
        title=_("New webhook of your own"),
        url="/settings/webhooks/+own/",
        icon="webhook",
        words="create add notify me e-mail chat notifications",
        is_command=True,
    ),
    SearchDestination(
        title=_("New person"),
        url="/settings/people/+new/",
        icon="user-plus",
        words="create add user",
        right=Right.PEOPLE_ADMIN,
        is_command=True,
    ),
    SearchDestination(
        title=_("New team"),
        url="/settings/teams/+new/",
        icon="users",
        words="create add",
        right=Right.PEOPLE_ADMIN,
        is_command=True,
        is_for_admins=True,
    ),
    SearchDestination(
        title=_("Audit"), url="/audit/", icon="history", words="log record", right=Right.AUDIT_READ
    ),
    SearchDestination(
        title=_("Account"),
        url="/settings/account/",
        icon="user",
        words="password language time zone profile",
    ),
    SearchDestination(title=_("API tokens"), url="/settings/tokens/", icon="key", words="scopes ci"),
    SearchDestination(title=_("People"), url="/settings/people/", icon="users", words="users accounts"),
    SearchDestination(title=_("Teams"), url="/settings/teams/", icon="users", words="members roles"),
    SearchDestination(
        title=_("Webhooks"),
        url="/settings/webhooks/",
        icon="webhook",
        words="deliveries events",
    ),
)
WEBHOOK_EVENTS = (
    WebhookEventType(
        "audit.head",
        _("The signed head of the audit log, as proof of it. Not sent to endpoints of a team."),
        installation,
    ),
    WebhookEventType(
        login.BREAK_GLASS,
        _("The break-glass account signed in by password. Not sent to endpoints of a team."),
        installation,
    ),
    WebhookEventType(
        "webhook.disabled",
        _("A webhook was disabled: it failed for too long, or answered 410."),
        endpoint_payload,
    ),
)
CHOICES = (
    ChoiceSet(states.AccountKind, schema="AccountKind"),
    ChoiceSet(states.DeliveryState, badges="delivery", schema="DeliveryState"),
    ChoiceSet(states.Right, schema="Right"),
    ChoiceSet(states.Role, schema="Role"),
    ChoiceSet(states.RoleSource),
    ChoiceSet(states.TokenState, badges="token", schema="TokenState"),
    ChoiceSet(states.WebhookFormat, schema="WebhookFormat"),
    ChoiceSet(states.LeastSeverity, schema="LeastSeverity"),
)
MANIFEST = AppManifest(
    alert_checks=ALERT_CHECKS,
    choices=CHOICES,
    sealed=(
        SealedColumn(WebhookEndpoint, "sealed_secret", webhooks.PURPOSE),
        SealedColumn(WebhookEndpoint, "sealed_former_secret", webhooks.PURPOSE),
    ),
    reconcilers=(
        AuditExportReconciler(),
        AuditOutputReconciler(),
        WebhookEventReconciler(),
        EndpointReconciler(),
    ),
    subjects=SUBJECTS,
    badges=BADGES,
    inbox=(InboxSource(find=stuck_rows),),
    nav=NAV,
    tabs=TABS,
    search=(SearchSource(_("People"), find_people),),
    destinations=DESTINATIONS,
    nouns={
        "deliveries": lambda count: ngettext("delivery", "deliveries", count),
        "entries": lambda count: ngettext("entry", "entries", count),
        "members": lambda count: ngettext("member", "members", count),
        "people": lambda count: ngettext("person", "people", count),
        "teams": lambda count: ngettext("team", "teams", count),
        "tokens": lambda count: ngettext("token", "tokens", count),
        "webhooks": lambda count: ngettext("webhook", "webhooks", count),
    },
    webhook_events=WEBHOOK_EVENTS,
    webhook_heading=_("Installation"),
    metrics=(metrics.webhooks, metrics.tokens),
    pruning=RULES,
    hooks=(login.connect, partial(catalogue.announce_with, announce)),
)
