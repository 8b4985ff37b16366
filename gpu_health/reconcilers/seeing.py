"""What every step of an incident sees of its machine, and how it is let go of it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar

from clusters.backends.base import (
    BackendError,
    ClusterBackend,
    ClusterUnreachable,
    Misconfigured,
    ObservedNode,
    StaleDeploymentFence,
)
from clusters.backends.node_operations import (
    CordonedByOther,
    NodeCommand,
    NodeOperations,
    OperationUnsupported,
    UnknownNode,
)
from clusters.backends.placement import Taint, TaintEffect
from clusters.models import Cluster, Worker
from clusters.services.node_orders import order_for
from clusters.states import NodeState
from common.errors import Unavailable
from common.reconcile import LeaseLost, Operation, Step, StepOutcome
from gpu_health.actions.base import ActionTarget
from gpu_health.healing.course import next_step
from gpu_health.healing.facts import (
    CordonOwner,
    HealingDecision,
    IncidentMachine,
)
from gpu_health.incident_facts import (
    BY,
    incident_facts,
    open_findings,
    policy,
)
from gpu_health.models import Drill, GpuCheck, Incident
from gpu_health.reconcilers.settling import MachineObservation, outcome_of

TAINT = Taint("slipway.io/gpu-health", TaintEffect.NO_SCHEDULE)
LOOK_SOON = timedelta(seconds=1)
LOOK_EVERY = timedelta(seconds=5)
BackendOf = Callable[[Cluster], ClusterBackend]


class IncidentStep(Step[Incident]):
    """Sees the machine; acts only where the present sight leaves the incident where it is."""

    look_every: ClassVar[timedelta] = LOOK_SOON

    def __init__(self, backend_of: BackendOf) -> None:
        self.backend_of = backend_of

    def observe(self, row: Incident, operation: Operation) -> MachineObservation:
        return self.look(row, operation)

    def settle(self, row: Incident, seen: MachineObservation, now: datetime) -> StepOutcome:
        return outcome_of(row, decided(row, seen, now), seen, now, self.look_every)

    def look(self, row: Incident, operation: Operation) -> MachineObservation:
        if row.node.state == NodeState.GONE:
            return MachineObservation(IncidentMachine(is_present=False))
        target = self.target(row)
        if target.seen is None:
            return MachineObservation(IncidentMachine(is_present=False))
        cordon = target.seen.cordon
        theirs = {"by": cordon.by, "reason": cordon.reason} if cordon and cordon.by != BY else None
        machine = IncidentMachine(
            boot_id=target.seen.boot_id,
            cordon=CordonOwner.NOBODY
            if cordon is None
            else CordonOwner.THEIRS
            if theirs
            else CordonOwner.OURS,
            has_taint=any(one.key == TAINT.key for one in target.seen.taints),
        )
        return replace(self.see(row, target, machine, operation), former_cordon=theirs)

    def see(
        self, row: Incident, target: ActionTarget, machine: IncidentMachine, operation: Operation
    ) -> MachineObservation:
        return MachineObservation(machine)

    def stays(self, row: Incident, operation: Operation) -> bool:
        """Whether nothing that can be seen now leads the incident elsewhere."""
        return decided(row, self.look(row, operation), operation.at).to is None

    def target(self, row: Incident) -> ActionTarget:
        backend = self.backend(row)
        with translated_refusals(row):
            try:
                seen: ObservedNode | None = backend.node_operations.look(row.node.uid)
            except UnknownNode:
                seen = None
        return ActionTarget(row, row.node, backend.node_operations, seen)

    def backend(self, row: Incident) -> ClusterBackend:
        with translated_refusals(row):
            return self.backend_of(row.node.cluster)

    def operations(self, row: Incident) -> NodeOperations:
        return self.backend(row).node_operations

    def order(self, row: Incident, operation: Operation, what: str) -> NodeCommand:
        return order_for(
            row,
            operation,
            node=row.node,
            op_key=f"{operation.op_key}:{what}",
            by=BY,
            reason=f"{row.title} (incident {row.pk})",
        )


def plain_machine(row: Incident) -> IncidentMachine:
    """Read the machine from its row alone: for stages in which nothing of ours is on it."""
    node = row.node
    return IncidentMachine(is_present=node.state != NodeState.GONE, boot_id=node.boot_id)


def pods_on(row: Incident) -> list[Worker]:
    return list(Worker.objects.filter(node_id=row.node_id).order_by("pk"))


def decided(row: Incident, seen: MachineObservation, now: datetime) -> HealingDecision:
    return next_step(
        incident_facts(row),
        open_findings(row.node_id),
        seen.machine,
        seen.refusal,
        now,
        policy().figures,
    )


class translated_refusals:
    """Translates refusals of the machine's cluster, and its silence, into errors that the kernel knows."""

    def __init__(self, row: Incident | GpuCheck | Drill) -> None:
        self._row = row

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StaleDeploymentFence):
            raise LeaseLost from None
        if isinstance(error, ClusterUnreachable | Misconfigured):
            raise Unavailable(f"The cluster {self._row.node.cluster.name} does not answer: {error}") from None
        if isinstance(error, BackendError) and not isinstance(error, OperationUnsupported | CordonedByOther):
            raise Unavailable(str(error)) from None
