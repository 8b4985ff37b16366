"""Drills are ordered and cancelled; clusters are marked as test clusters, on whose machines they may be."""

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.backends.kinds import abilities_of
from clusters.models import AgentToken, Cluster, Node
from clusters.states import NodeState
from common import audit, clock
from common.actor import Actor
from common.reconcile import kernel
from gpu_health import selectors
from gpu_health.drills.scenarios import DrillSource, Scenario, UnknownScenario, expected, scenario
from gpu_health.errors import DrillEnded, DrillRefused, InvalidDrill, NotATestCluster
from gpu_health.incident_facts import ACTIONABLE
from gpu_health.models import Drill, DrillCluster, Finding, Incident
from gpu_health.policy.rule import FaultRule
from gpu_health.states import ENDED_DRILLS, ENDED_INCIDENTS, DrillState, FindingState

MOST_GPUS = 16


def mark_cluster(*, actor: Actor, cluster: Cluster, is_test: bool, reason: str = "") -> None:
    """Whether faults may be played on its machines. What is under way goes on. Raises NotAllowed."""
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    with transaction.atomic():
        if is_test:
            _row, changed = DrillCluster.objects.get_or_create(
                cluster=cluster, defaults={"marked_by": actor.name, "reason": reason}
            )
        else:
            changed = bool(DrillCluster.objects.filter(cluster=cluster).delete()[0])
        if changed:
            deed = "cluster.test" if is_test else "cluster.no_test"
            audit.record(actor, deed, subject=cluster, reason=reason, team_id=cluster.team_id)


def order_drill(
    *,
    actor: Actor,
    node: Node,
    name: str,
    way: str = "",
    acts: bool = False,
    gpus: int = 8,
    gpu: int = 0,
    reason: str = "",
) -> Drill:
    """Play the scenario on the machine. `way`: by which source; empty: the most faithful that it has there.
    `acts`: the machine is quarantined, drained and returned, its repairs are played; else a dry run.

    Raises NotAllowed, InvalidDrill, NotATestCluster, DrillRefused while another drill or a fault has it.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    played = _scenario(name)
    if not DrillCluster.objects.filter(cluster=node.cluster).exists():
        raise NotATestCluster(
            _(
                "%(cluster)s is not marked as a test cluster, and drills run only on those. Mark it on the "
                "page of drills, or with slipway gpu drill mark %(cluster)s."
            )
            % {"cluster": node.cluster.name}
        )
    if node.state == NodeState.GONE:
        raise InvalidDrill(_("%(node)s is gone: its cluster no longer lists it.") % {"node": node.name})
    if not 1 <= gpus <= MOST_GPUS:
        raise InvalidDrill(fields={"gpus": [_("Give 1 to %(most)d GPUs.") % {"most": MOST_GPUS}]})
    if not 0 <= gpu < gpus:
        raise InvalidDrill(fields={"gpu": [_("Give 0 to %(last)d.") % {"last": gpus - 1}]})
    chosen = _way(played, way, node)
    _refuse_if_busy(node)
    now = clock.now()
    try:
        with transaction.atomic():
            drill = Drill.objects.create(
                node=node,
                scenario=name,
                way=chosen,
                acts=acts,
                gpus=gpus,
                gpu=gpu,
                expected=verdict_of(played, DrillSource(chosen), selectors.rules()),
                ordered_by=actor.name,
                reason=reason,
                next_at=now,
            )
            _record(actor, "gpu_drill.order", drill, reason)
    except IntegrityError:
        raise DrillRefused(_("Another drill of %(node)s is still running.") % {"node": node.name}) from None
    kernel.wake(drill)
    return drill


def cancel_drill(*, actor: Actor, drill: Drill, reason: str = "") -> Drill:
    """The fault is withdrawn, and the machine brought back. Raises NotAllowed, DrillEnded."""
    require_for_owner(actor, Right.FLEET_OPERATE, drill.node.cluster.team)
    with transaction.atomic():
        open_states = [one for one in DrillState.values if one not in ENDED_DRILLS]
        if not kernel.wake(drill, where={"state__in": open_states}, cancelled_by=actor.name):
            raise DrillEnded(_("This drill has ended."))
        _record(actor, "gpu_drill.cancel", drill, reason)
    drill.refresh_from_db()
    return drill


def _scenario(name: str) -> Scenario:
    try:
        return scenario(name)
    except UnknownScenario as error:
        raise InvalidDrill(fields={"scenario": [str(error)]}) from None


def _way(played: Scenario, wanted: str, node: Node) -> str:
    """Raises InvalidDrill."""
    ways = [str(way) for way in played.ways]
    if not abilities_of(node.cluster.kind).tells_conditions:
        ways = [way for way in ways if way != DrillSource.CONDITION]
    elif not AgentToken.objects.filter(cluster=node.cluster, node_uid=node.uid).exists():
        ways = [way for way in ways if way != DrillSource.AGENT]
    if wanted and wanted not in ways:
        words = _("On this machine the scenario can be simulated by: %(ways)s.") % {
            "ways": ", ".join(ways) or "-"
        }
        raise InvalidDrill(fields={"way": [words]})
    if not ways:
        raise InvalidDrill(
            fields={
                "scenario": [
                    _("It takes a machine whose agent reports.")
                    if DrillSource.AGENT in played.ways
                    else _("It takes a Kubernetes cluster: its nodes have conditions.")
                ]
            }
        )
    return wanted or ways[0]


def _refuse_if_busy(node: Node) -> None:
    if Incident.objects.filter(node=node).exclude(state__in=ENDED_INCIDENTS).exists():
        raise DrillRefused(
            _("%(node)s has an open incident: a drill would interfere with it.") % {"node": node.name}
        )
    if Finding.objects.filter(node=node, state=FindingState.OPEN, outcome__in=ACTIONABLE).exists():
        raise DrillRefused(_("%(node)s has an open finding: close it first.") % {"node": node.name})


def verdict_of(played: Scenario, way: DrillSource, rules: Sequence[FaultRule]) -> dict[str, Any]:
    """Return the verdict of the rules on the scenario's fault."""
    verdict = expected(played, way, rules)
    return {
        "fault": verdict.fault,
        "outcome": str(verdict.outcome),
        "severity": str(verdict.severity),
        "ladder": [str(action) for action in verdict.ladder],
        "drain": str(verdict.drain),
        "rule": verdict.rule,
    }


def _record(actor: Actor, deed: str, drill: Drill, reason: str) -> None:
    audit.record(
        actor,
        deed,
        subject=drill,
        reason=reason,
        detail={"node": drill.node.name, "scenario": drill.scenario, "acts": drill.acts},
        team_id=drill.node.cluster.team_id,
    )
