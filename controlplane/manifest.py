"""What the composition root itself adds: Home, the parts of the stack, the API's reference."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from common import clock
from common.alert_checks import AlertCheck, AlertFinding, MetricCondition
from common.alert_rules import AlertRule
from common.audit import Recorded
from common.clock import UNHEALTHY_SECONDS
from common.declared import AppManifest
from common.events import Subscription
from common.pages.badges import Badge, Badges
from common.pages.cards import HomeCard
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem
from controlplane.backup.last import last_backup, longest_age
from controlplane.backup.last import metrics as backup_metrics
from controlplane.changes import ChangesTopic, show_changes
from controlplane.home.consumers import HomeTopic
from controlplane.home.inbox import InboxCard
from controlplane.home.parts import parts_card
from controlplane.search import find_destinations

BADGES: Mapping[str, Badges] = {
    "part": {
        "up": Badge(_("Up"), "good", "circle-check"),
        "starting": Badge(_("Starting"), "busy", "progress"),
        "restarting": Badge(_("Restarting"), "warn", "refresh"),
        "slow": Badge(_("Slow"), "idle", "clock"),
        "off": Badge(_("Not set up"), "idle", "circle-dashed"),
        "failing": Badge(_("Not answering"), "warn", "alert-triangle"),
        "down": Badge(_("Down"), "bad", "circle-x"),
        "stopped": Badge(_("Stopped"), "idle", "player-stop"),
        "unknown": Badge(_("Unknown"), "idle", "help-circle"),
    },
}
VITAL = "database|disk|reconcilers"
"""Parts without which the control plane does nothing."""
WATCHED_APART = "backup|clock|clusters|gateway|hosts"
"""Parts with rules of their own, which name what is down."""


def _old_backups() -> Iterator[AlertFinding]:
    made, limit = last_backup(), longest_age()
    if limit is not None and (made is None or clock.now() - made > limit):
        yield AlertFinding({})


MANIFEST = AppManifest(
    alert_checks=(
        AlertCheck(
            name="SlipwayBackupOld",
            title=_("No backup, or an old one"),
            severity="critical",
            find=_old_backups,
            metric=MetricCondition(
                "max(slipway_backup_age_seconds) > max(slipway_backup_age_limit_seconds)"
                " or (max(slipway_backup_age_limit_seconds) unless max(slipway_backup_age_seconds))"
            ),
            lasts=timedelta(minutes=15),
            note=_("Older than SLIPWAY_BACKUP_MAX_AGE_HOURS: run slipway-server backup."),
        ),
    ),
    subscriptions=(Subscription(Recorded, show_changes),),
    badges=BADGES,
    cards=(
        HomeCard(name="inbox", template="home/_inbox.html", read=InboxCard, column="main", rank=10),
        HomeCard(name="parts", template="home/_parts.html", read=parts_card, column="side", rank=20),
    ),
    nav=(NavItem(name=_("Home"), path="/", icon="home", rank=10, key="h"),),
    search=(SearchSource(_("Pages and commands"), find_destinations),),
    destinations=(
        SearchDestination(title=_("Home"), url="/", icon="home", words="inbox attention approvals status"),
        SearchDestination(
            title=_("API reference"),
            url="/api/docs/",
            icon="braces",
            words="rest openapi schema documentation",
        ),
    ),
    topics=(HomeTopic(), ChangesTopic()),
    metrics=(backup_metrics,),
    alert_rules=(
        AlertRule(
            name="SlipwayPartDown",
            expr=f'slipway_part_up{{part=~"{VITAL}"}} == 0',
            lasts="1m",
            severity="critical",
            summary="{{ $labels.part }}, as {{ $labels.instance }} sees it, is down.",
            note="Releases stand still. Models answer on.",
        ),
        AlertRule(
            name="SlipwayPartImpaired",
            expr=f'slipway_part_up{{part!~"{VITAL}|{WATCHED_APART}"}} == 0',
            lasts="2m",
            severity="warning",
            summary="{{ $labels.part }}, as {{ $labels.instance }} sees it, is down.",
            note="Others do its work, or it waits.",
        ),
        AlertRule(
            name="SlipwayProcessSilent",
            # Whatever the job is called: whoever has told of its parts this week, and cannot be scraped.
            expr='up == 0 and on (job, instance) last_over_time(slipway_part_up{part="database"}[7d])',
            lasts="2m",
            severity="warning",
            summary="{{ $labels.instance }} does not answer Prometheus.",
        ),
        AlertRule(
            name="SlipwayClockSkew",
            expr=f"max by (host) (abs(slipway_clock_skew_seconds)) > {UNHEALTHY_SECONDS:g}",
            lasts="2m",
            severity="warning",
            summary="The clock of {{ $labels.host }} is off the database's by {{ $value }} s.",
            note="Leases and due times go by the database's; certificates, tokens and logs do not.",
        ),
        AlertRule(
            name="SlipwayNotMeasured",
            # Workers and sweepers tell of parts, too; of sockets webs alone.
            expr="absent(slipway_live_sockets)",
            lasts="2m",
            severity="critical",
            summary="No web of Slipway answers Prometheus.",
        ),
        AlertRule(
            name="SlipwayWebErrors",
            expr='sum by (instance) (rate(slipway_http_request_duration_seconds_count{status=~"5.."}[5m]))'
            " > 0.05 * sum by (instance) (rate(slipway_http_request_duration_seconds_count[5m]))",
            lasts="5m",
            severity="critical",
            summary="More than 5 % of the answers of {{ $labels.instance }} are errors.",
        ),
        AlertRule(
            name="SlipwayDatabasePoolWaits",
            expr="slipway_database_pool_waiting > 0",
            lasts="1m",
            severity="warning",
            summary="Requests of {{ $labels.instance }} wait for a database connection: {{ $value }}.",
        ),
        AlertRule(
            name="SlipwayQueueLong",
            expr="max by (queue) (slipway_queue_messages) > 1000",
            lasts="5m",
            severity="warning",
            summary="{{ $value }} doorbells wait in the queue {{ $labels.queue }}.",
        ),
        AlertRule(
            name="SlipwayDiskInodes",
            expr="slipway_disk_free_inodes < 0.05 * slipway_disk_inodes",
            lasts="5m",
            severity="warning",
            summary="The disk of {{ $labels.place }} on {{ $labels.instance }} takes few more files.",
        ),
    ),
)
