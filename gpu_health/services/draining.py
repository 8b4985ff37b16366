"""The drain of an incident's machine: a row of the cluster's own, ordered under the step's op_key."""

from contextlib import suppress
from typing import Any

from django.db.models import QuerySet

from clusters.draining.checkpoints import times_of, words_of
from clusters.draining.options import DrainOptions
from clusters.errors import DrainEnded, NodeBusy
from clusters.models import Drain
from clusters.services.drains import cancel_drain, drain_node
from clusters.states import UNDER_WAY, DrainState
from common.errors import Unavailable
from common.reconcile import Operation
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.incident_facts import ACTOR, incident_facts, policy
from gpu_health.models import Incident
from gpu_health.policy.rule import DrainLevel as Scope
from gpu_health.services.admission import note_drain

USUAL: dict[str, Any] = {"local_data_may_go": True}
"""A fault takes what is on the machine anyway; pods that nothing makes anew still stop the drain."""


def options_of(incident: Incident) -> DrainOptions:
    """Return the installation's drain options; a drain of a GPU leaves pods without GPUs alone."""
    gpus_only = incident_facts(incident).drain is Scope.GPU
    return DrainOptions.read({**USUAL, **policy().drain, "gpu_pods_only": gpus_only})


def begin_drain(incident: Incident, operation: Operation) -> None:
    """Once for an operation. Raises Unavailable while somebody else drains or operates the machine."""
    if Drain.objects.filter(op_key=_key(operation)).exists():
        return
    note_drain(incident, operation.at)
    reason = f"{incident.title} (incident {incident.pk})"
    try:
        drain_node(
            actor=ACTOR,
            node=incident.node,
            reason=reason,
            options=options_of(incident),
            op_key=_key(operation),
        )
    except NodeBusy as error:
        raise Unavailable(str(error)) from None


def drain_work(incident: Incident, operation: Operation) -> MachineWork:
    row = Drain.objects.filter(op_key=_key(operation)).first()
    if row is None:
        return MachineWork()
    if row.state == DrainState.DRAINED:
        words = f"The pods have left. {words_of(row.pods)} {times_of(row.pods)}".strip()
        return MachineWork(WorkProgress.SUCCEEDED, words)
    if row.is_under_way:
        waits = [f"{one['name']}: {one['blocked_by']}" for one in row.pods if one.get("blocked_by")]
        left = sum(not one.get("left_at") and one.get("fate") in ("evicted", "finishes") for one in row.pods)
        words = "; ".join([row.problem, *waits][:3]).strip("; ")
        return MachineWork(WorkProgress.RUNNING, words or f"{left} pods are left.")
    why = row.problem or "It was cancelled."
    return MachineWork(WorkProgress.FAILED, f"The drain of {incident.node.name} failed: {why}")


def stop_drain(incident: Incident, why: str) -> None:
    """Inside the transaction in which the incident goes elsewhere: no further pod is asked to leave."""
    rows = Drain.objects.filter(op_key__startswith=f"gpu_health.incident:{incident.pk}:", state__in=UNDER_WAY)
    for row in rows:
        cancel_drain(actor=ACTOR, drain=row, reason=why)


def drains_under_way() -> QuerySet[Drain]:
    """Return the drains that healing has ordered."""
    return Drain.objects.filter(op_key__startswith="gpu_health.incident:", state__in=UNDER_WAY)


def stop_all_drains(why: str) -> int:
    """Stop the drains that are under way; returns how many. Their incidents need a person once healing goes
    on."""
    stopped = 0
    for row in drains_under_way().select_related("node__cluster__team").order_by("pk"):
        with suppress(DrainEnded):
            cancel_drain(actor=ACTOR, drain=row, reason=why)
            stopped += 1
    return stopped


def _key(operation: Operation) -> str:
    return f"{operation.op_key}:drain"
