"""What every app shares adds to the whole: the kernel's rows, the disk, the audit log."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common import metrics, tasks
from common.alert_rules import AlertRule
from common.api.idempotency import answers_before
from common.declared import AppManifest
from common.disk_watch import DiskFilled, DiskRanLow, DiskRecovered
from common.events import Subscription
from common.models import IdempotentAnswer, Intent
from common.own_alert_checks import ALERT_CHECKS
from common.pages.badges import Badge, Badges
from common.reconcile import Due, StuckRow, pruning
from common.webhooks.catalogue import WebhookEventType, installation

BADGES: Mapping[str, Badges] = {
    "work": {
        "stuck": Badge(_("Stuck"), "bad", "alert-triangle"),
        "failing": Badge(_("Failing"), "warn", "alert-triangle"),
    },
    "disk": {
        "low": Badge(_("Disk low"), "warn", "database-exclamation"),
        "full": Badge(_("Disk full"), "bad", "database-x"),
        "unknown": Badge(_("Unknown"), "bad", "database-x"),
    },
}
PRUNING = (
    pruning.PruningRule(
        Intent,
        _("Steps in the journal"),
        "SLIPWAY_KEEP_INTENTS_DAYS",
        pruning.finished_intents,
        kept=_("Steps under way, and those of which nobody knows whether they took effect, stay."),
    ),
    pruning.PruningRule(
        IdempotentAnswer,
        _("Answers to requests with an Idempotency-Key"),
        "SLIPWAY_KEEP_ANSWERS_DAYS",
        answers_before,
    ),
)
WEBHOOK_EVENTS = (
    WebhookEventType(
        "work.stuck",
        _("Something is stuck until somebody acts. Not sent to endpoints of a team."),
        installation,
        StuckRow,
        ids=("kind", "id"),
    ),
    WebhookEventType(
        "disk.low",
        _("The disk of a server is almost full, or no longer full. Not sent to endpoints of a team."),
        installation,
        DiskRanLow,
    ),
    WebhookEventType(
        "disk.full",
        _("The disk of a server is full: nothing new is written. Not sent to endpoints of a team."),
        installation,
        DiskFilled,
    ),
    WebhookEventType(
        "disk.recovered",
        _("The disk of a server has enough free space again. Not sent to endpoints of a team."),
        installation,
        DiskRecovered,
    ),
)
ALERT_RULES = (
    AlertRule(
        name="SlipwayTakerHung",
        expr="max by (role) (slipway_taker_silent_seconds) > 30",
        lasts="1m",
        severity="warning",
        summary="A {{ $labels.role }} has hung for {{ $value | humanizeDuration }} and was not replaced.",
        note="Others do its work. Its watchdog hangs as well.",
    ),
    AlertRule(
        name="SlipwayRowsLate",
        expr="max by (kind) (slipway_oldest_due_seconds) > 300",
        severity="critical",
        summary="A row of {{ $labels.kind }} has been due for {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        name="SlipwayDatabaseConnections",
        expr="sum(max by (role, state) (slipway_database_connections))"
        " > 0.9 * max(slipway_database_connections_limit)",
        lasts="2m",
        severity="warning",
        summary="Slipway holds {{ $value }} connections, nine tenths of what the database takes.",
    ),
)
MANIFEST = AppManifest(
    alert_checks=ALERT_CHECKS,
    subscriptions=(Subscription(Due, tasks.ring),),
    reconcilers=(pruning.Prune(),),
    badges=BADGES,
    nouns={"rows": lambda count: ngettext("row", "rows", count)},
    webhook_events=WEBHOOK_EVENTS,
    webhook_heading=_("Installation"),
    metrics=(
        metrics.work,
        metrics.hosts,
        metrics.database_connections,
        metrics.audit_records,
    ),
    alert_rules=ALERT_RULES,
    pruning=PRUNING,
)
