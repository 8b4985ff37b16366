"""What GPU health adds to the whole."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters.faults import register_fault_check
from clusters.panels import NodePanel, register_node_panel
from common.alert_rules import AlertRule
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.events import Subscription
from common.pages.cards import HomeCard
from common.pages.inbox import InboxSource
from common.pages.search import SearchDestination
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import WebhookEventType, installation
from gpu_health import events, inbox, metrics, pruning, states
from gpu_health.alert_checks import ALERT_CHECKS
from gpu_health.badges import BADGES
from gpu_health.consumers import GpuHealthTopic
from gpu_health.gpu_count_panel import gpu_count_panel
from gpu_health.health_now import HealthCard
from gpu_health.incident_facts import has_incident
from gpu_health.reconcilers.check_schedule import CheckScheduleReconciler
from gpu_health.reconcilers.checks import CheckReconciler
from gpu_health.reconcilers.drills import DrillReconciler
from gpu_health.reconcilers.incidents import IncidentReconciler
from gpu_health.reconcilers.judging import JudgingReconciler
from gpu_health.reconcilers.signals import ClusterEventReconciler, SignalReconciler
from gpu_health.states import IncidentState
from gpu_health.subscribers import show_gpu_health
from gpu_health.webhook_events import finding_payload, incident_payload

DESTINATIONS = (
    SearchDestination(
        title=_("GPU health"), url="/gpu-health/", icon="heartbeat", words="xid ecc nvlink faults findings"
    ),
    SearchDestination(
        title=_("GPU incidents"),
        url="/gpu-health/incidents/",
        icon="heartbeat",
        words="healing quarantine breaker kill switch",
    ),
    SearchDestination(
        title=_("GPU health statistics"),
        url="/gpu-health/statistics/",
        icon="chart-line",
        words="mttd mttr availability lost hours cost lemon mtbf",
    ),
    SearchDestination(
        title=_("Limits of healing"),
        url="/gpu-health/limits/",
        icon="settings",
        words="budget slots breaker rate cooldown maintenance windows dry run approvals lemon",
    ),
    SearchDestination(
        title=_("GPU prices"),
        url="/gpu-health/statistics/prices/",
        icon="settings",
        words="cost per hour currency",
    ),
    SearchDestination(
        title=_("GPU health rules"), url="/gpu-health/rules/", icon="heartbeat", words="xid policy ladder"
    ),
    SearchDestination(
        title=_("GPU checks"), url="/gpu-health/checks/", icon="list-check", words="dcgm diagnostic burn-in"
    ),
    SearchDestination(
        title=_("GPU drills"), url="/gpu-health/drills/", icon="player-play", words="fault injection scenario"
    ),
)
CHOICES = (
    ChoiceSet(states.CheckState, badges="gpu_check"),
    ChoiceSet(states.DrainScope, schema="GpuDrain"),
    ChoiceSet(states.DrillState, badges="gpu_drill"),
    ChoiceSet(states.DrillWay),
    ChoiceSet(states.FindingOutcome, badges="gpu_outcome", schema="GpuFindingOutcome"),
    ChoiceSet(states.FindingSeverity, badges="gpu_severity", schema="GpuSeverity"),
    ChoiceSet(states.FindingState, badges="gpu_finding", schema="GpuFindingState"),
    ChoiceSet(states.HealingMode, schema="GpuHealingMode"),
    ChoiceSet(states.IncidentState, badges="gpu_incident", schema="GpuIncidentState"),
    ChoiceSet(states.RuleMode, schema="GpuRuleMode"),
    ChoiceSet(states.RuleVerification, schema="GpuVerification"),
)
MANIFEST = AppManifest(
    alert_checks=ALERT_CHECKS,
    choices=CHOICES,
    subscriptions=tuple(
        Subscription(event, show_gpu_health)
        for event in (
            events.FindingOpened,
            events.FindingEnded,
            events.IncidentOpened,
            events.IncidentMoved,
            events.IncidentApprovalAsked,
        )
    ),
    reconcilers=(
        IncidentReconciler(),
        CheckReconciler(),
        CheckScheduleReconciler(),
        DrillReconciler(),
        SignalReconciler(),
        ClusterEventReconciler(),
        JudgingReconciler(),
    ),
    inbox=(
        InboxSource(find=inbox.approvals, topic="changes:gpu-health"),
        InboxSource(
            find=inbox.for_people,
            tells=(("gpu_health.incident", IncidentState.NEEDS_PERSON),),
            topic="changes:gpu-health",
        ),
    ),
    subjects=(
        Subject(
            "gpu_health.incident",
            _("GPU incident"),
            "/gpu-health/incidents/{pk}/",
            title=_("%(fault)s on %(node__name)s"),
            badges="gpu_incident",
        ),
        Subject(
            "gpu_health.gpucheck",
            _("GPU check"),
            "/gpu-health/checks/{pk}/",
            title=_("Check of %(node__name)s"),
            badges="gpu_check",
        ),
        Subject(
            "gpu_health.drill",
            _("GPU drill"),
            "/gpu-health/drills/{pk}/",
            title=_("Drill on %(node__name)s"),
            badges="gpu_drill",
        ),
        Subject("gpu_health.eventreader", _("Reader of events"), "/gpu-health/"),
        Subject("gpu_health.signalreader", _("Reader of machines"), "/gpu-health/"),
        Subject("gpu_health.judginganew", _("Judging by changed rules"), "/gpu-health/rules/"),
        Subject("gpu_health.checkschedule", _("Schedule of GPU checks"), "/gpu-health/checks/"),
        Subject("gpu_health.healingpolicy", _("Healing policy"), "/gpu-health/limits/"),
        Subject("gpu_health.healingpool", _("Healing pool"), "/gpu-health/incidents/"),
        Subject("gpu_health.gpuprices", _("GPU prices"), "/gpu-health/statistics/prices/"),
        Subject("gpu_health.finding", _("GPU finding"), "/gpu-health/findings/{pk}/", badges="gpu_finding"),
        Subject("gpu_health.rulechange", _("GPU health rule"), "/gpu-health/rules/{name}/"),
    ),
    badges=BADGES,
    topics=(GpuHealthTopic(),),
    cards=(
        HomeCard(
            name="gpu-health",
            template="gpu_health/_home.html",
            read=HealthCard,
            column="side",
            rank=15,
            topic="gpu-health",
        ),
    ),
    nav=(
        NavItem(
            name=_("GPU health"),
            path="/gpu-health/",
            icon="heartbeat",
            rank=52,
            key="u",
            follows_changes=True,
        ),
    ),
    notices=("/gpu-health/+notice/",),
    destinations=DESTINATIONS,
    nouns={
        "incidents": lambda count: ngettext("incident", "incidents", count),
        "drills": lambda count: ngettext("drill", "drills", count),
        "checks": lambda count: ngettext("check", "checks", count),
        "findings": lambda count: ngettext("finding", "findings", count),
        "gpu-rules": lambda count: ngettext("rule", "rules", count),
        "faults": lambda count: ngettext("fault", "faults", count),
    },
    webhook_events=(
        WebhookEventType(
            "gpu_finding.opened",
            _("A fault of a GPU or machine was found."),
            finding_payload,
            events.FindingOpened,
        ),
        WebhookEventType(
            "gpu_finding.ended",
            _("A GPU finding was cleared or closed."),
            finding_payload,
            events.FindingEnded,
        ),
        WebhookEventType(
            "gpu_incident.opened",
            _("A fault has opened an incident of a machine."),
            incident_payload,
            events.IncidentOpened,
        ),
        WebhookEventType(
            "gpu_incident.moved",
            _("An incident of a machine moved to its next state."),
            incident_payload,
            events.IncidentMoved,
        ),
        WebhookEventType(
            "gpu_incident.waiting_approval",
            _("An incident waits for the approval of a person."),
            incident_payload,
            events.IncidentApprovalAsked,
        ),
        WebhookEventType(
            "gpu_healing.breaker_opened",
            _("Healing stopped in a pool because too many of its machines were cordoned. Not sent to teams."),
            installation,
            events.HealingBreakerOpened,
        ),
        WebhookEventType(
            "gpu_healing.stopped",
            _("The kill switch of healing was turned on. Not sent to teams."),
            installation,
            events.HealingStopped,
        ),
        WebhookEventType(
            "gpu_healing.resumed",
            _("The kill switch of healing was turned off. Not sent to teams."),
            installation,
            events.HealingResumed,
        ),
    ),
    webhook_heading=_("GPU health"),
    metrics=(metrics.findings, metrics.incidents, metrics.healing, metrics.figures),
    alert_rules=(
        AlertRule(
            name="SlipwayGpuLinesUnread",
            expr="max without (instance, pod) (slipway_gpu_unread_lines) > 0",
            lasts="1m",
            severity="warning",
            summary="{{ $value }} lines of GPU drivers name a fault and could not be read.",
        ),
    ),
    pruning=pruning.RULES,
    hooks=(
        partial(register_node_panel, NodePanel("gpu_health/_gpu_count.html", gpu_count_panel)),
        partial(register_fault_check, has_incident),
    ),
)
