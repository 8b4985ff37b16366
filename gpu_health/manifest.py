"""What GPU health adds to the whole."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.alert_rules import AlertRule
from common.declared import Manifest
from common.pages.inbox import InboxSource
from common.pages.search import Destination
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import WebhookEvent
from gpu_health import events, inbox, metrics, pruning
from gpu_health.badges import BADGES
from gpu_health.reconcilers.incidents import IncidentReconciler
from gpu_health.states import IncidentState
from gpu_health.webhook_events import finding_payload

DESTINATIONS = (
    Destination(
        title=_("GPU health"), url="/gpu-health/", icon="heartbeat", words="xid ecc nvlink faults findings"
    ),
    Destination(
        title=_("GPU health rules"), url="/gpu-health/rules/", icon="heartbeat", words="xid policy ladder"
    ),
)
MANIFEST = Manifest(
    reconcilers=(IncidentReconciler(),),
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
        Subject("gpu_health.healingpolicy", _("Healing policy"), "/gpu-health/incidents/"),
        Subject("gpu_health.healingpool", _("Healing pool"), "/gpu-health/incidents/"),
        Subject("gpu_health.finding", _("GPU finding"), "/gpu-health/findings/{pk}/", badges="gpu_finding"),
        Subject("gpu_health.rulechange", _("GPU health rule"), "/gpu-health/rules/{name}/"),
    ),
    badges=BADGES,
    nav=(
        NavItem(
            name=_("GPU health"),
            path="/gpu-health/",
            icon="heartbeat",
            rank=65,
            key="u",
            follows_changes=True,
        ),
    ),
    destinations=DESTINATIONS,
    nouns={
        "incidents": lambda count: ngettext("incident", "incidents", count),
        "findings": lambda count: ngettext("finding", "findings", count),
        "gpu-rules": lambda count: ngettext("rule", "rules", count),
        "faults": lambda count: ngettext("fault", "faults", count),
    },
    webhook_events=(
        WebhookEvent(
            "gpu_finding.opened",
            _("A fault of a GPU or machine was found."),
            finding_payload,
            events.FindingOpened,
        ),
        WebhookEvent(
            "gpu_finding.ended",
            _("A GPU finding was cleared or closed."),
            finding_payload,
            events.FindingEnded,
        ),
    ),
    webhook_heading=_("GPU health"),
    metrics=(metrics.findings,),
    alert_rules=(
        AlertRule(
            name="SlipwayGpuFindingFatal",
            expr='max without (instance, pod) (slipway_gpu_findings{severity="fatal"}) > 0',
            lasts="1m",
            severity="warning",
            summary="{{ $value }} fatal findings of GPU health are open.",
        ),
    ),
    pruning=pruning.RULES,
)
