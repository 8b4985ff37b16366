"""Open findings are judged by the rules in force, whenever these have become others."""

from collections.abc import Iterator

from django.db import transaction
from django.db.models import QuerySet

from clusters.models import Cluster, Node
from common import audit, clock
from gpu_health import selectors
from gpu_health.incident_facts import ACTOR
from gpu_health.models import Finding, Incident
from gpu_health.services.incidents import note
from gpu_health.services.readings import judge_node
from gpu_health.states import ENDED_INCIDENTS, FindingOutcome, FindingState

OPEN = Finding.objects.filter(state=FindingState.OPEN)
JUDGED = ("outcome", "severity", "ladder", "drain", "verification", "rule")


def outdated() -> Iterator[Node]:
    """Machines with open findings that other rules than those in force have judged."""
    for cluster in Cluster.objects.filter(pk__in=OPEN.values("node__cluster")):
        behind = OPEN.filter(node__cluster=cluster).exclude(rule_book=selectors.rule_book(cluster).digest)
        yield from Node.objects.filter(pk__in=behind.values("node")).select_related("cluster").order_by("pk")


def judge_anew(node: Node) -> None:
    """Judge the machine's open findings by the rules in force, without opening new ones. An incident that
    has not acted yet follows the new verdict and passes its guards again.
    """
    digest = selectors.rule_book(node.cluster).digest
    with transaction.atomic():
        before = {row.pk: row for row in OPEN.filter(node=node)}
        judge_node(node, opens=False)
        for row in Finding.objects.filter(pk__in=before):
            if any(getattr(row, name) != getattr(before[row.pk], name) for name in (*JUDGED, "state")):
                _tell(node, before[row.pk], row)
        # Of what no reading is left, too: it stays as it was judged.
        OPEN.filter(pk__in=before).update(rule_book=digest)


def _tell(node: Node, before: Finding, after: Finding) -> None:
    words = f"The rules have changed. {after.title}: {_words(after)} instead of {_words(before)}."
    audit.record(
        ACTOR,
        "gpu_finding.judge_anew",
        subject=after,
        reason="the rules have changed",
        detail={
            "fault": after.fault,
            "node": node.name,
            "before": {name: getattr(before, name) for name in JUDGED},
            "after": {name: getattr(after, name) for name in JUDGED} | {"state": after.state},
        },
        team_id=node.cluster.team_id,
    )
    incidents: QuerySet[Incident] = Incident.objects.exclude(state__in=ENDED_INCIDENTS)
    incident = incidents.filter(node=node, finding=after).first()
    if incident is not None:
        note(incident, clock.now(), incident.state, "gpu-health", words)


def _words(row: Finding) -> str:
    if row.state != FindingState.OPEN:
        return "nothing"
    return f"{FindingOutcome(row.outcome)}, {' > '.join(row.ladder)}"
