"""Where guards are asked, and where nothing is done."""

from dataclasses import replace
from datetime import datetime, timedelta

from common.reconcile import Effect, Operation, StepOutcome
from gpu_health.actions.base import ActionTarget
from gpu_health.healing.facts import (
    CordonOwner,
    GuardRefusal,
    IncidentMachine,
    IncidentStage,
)
from gpu_health.healing.guards import Gate
from gpu_health.incident_facts import BY
from gpu_health.models import Incident
from gpu_health.reconcilers.seeing import (
    LOOK_EVERY,
    TAINT,
    BackendOf,
    IncidentStep,
    decided,
    plain_machine,
    pods_on,
)
from gpu_health.reconcilers.settling import MachineObservation
from gpu_health.services.admission import admit
from gpu_health.states import IncidentState

SURVEYED_WITHIN = timedelta(seconds=15)


class GuardedStep(IncidentStep):
    """Waits until the guards let the incident through. Takes the slot with their answer."""

    name = "gate"
    effect = Effect.ABSOLUTE
    look_every = LOOK_EVERY
    _refusal: GuardRefusal | None = None
    _sight: MachineObservation | None = None

    def __init__(self, backend_of: BackendOf, *, asks_machine: bool) -> None:
        super().__init__(backend_of)
        self._asks = asks_machine

    def see(
        self, row: Incident, target: ActionTarget, machine: IncidentMachine, operation: Operation
    ) -> MachineObservation:
        return MachineObservation(replace(machine, pods_left=len(pods_on(row))))

    def look(self, row: Incident, operation: Operation) -> MachineObservation:
        """Return what the step before or the last survey saw; that is enough for waiting, since whatever
        acts next looks at the machine itself first.
        """
        if not self._asks:
            return MachineObservation(plain_machine(row))
        if self._sight is not None:
            return self._sight
        if (machine := surveyed(row, operation.at)) is not None:
            return MachineObservation(replace(machine, pods_left=len(pods_on(row))))
        return super().look(row, operation)

    def act(self, row: Incident, operation: Operation) -> None:
        seen = self._sight = self.look(row, operation)
        gates = gates_before(decided(row, seen, operation.at).to, row)
        if gates:
            self._refusal = admit(row, gates, operation.at)

    def settle(self, row: Incident, seen: MachineObservation, now: datetime) -> StepOutcome:
        return super().settle(row, replace(seen, refusal=self._refusal), now)


def surveyed(row: Incident, now: datetime) -> IncidentMachine | None:
    """The quarantined machine by its row, where that shows our cordon and our taint, or is too young to show
    what the quarantine has just seen; None: somebody has changed something, or it was never ours alone."""
    node = row.node
    if not row.is_quarantined or row.former_cordon or node.boot_id != (row.session or node.boot_id):
        return None
    is_ours = node.is_cordoned and node.cordoned_by == BY
    has_taint = any(one.get("key") == TAINT.key for one in node.taints)
    if (is_ours and has_taint) or (not node.is_cordoned and now - row.state_since < SURVEYED_WITHIN):
        return replace(plain_machine(row), cordon=CordonOwner.OURS, has_taint=True)
    return None


_FROM_PROPOSED = {
    IncidentStage.QUARANTINING: frozenset({Gate.QUARANTINE}),
    IncidentStage.ACTING: frozenset({Gate.REPAIR}),
    IncidentStage.NEEDS_PERSON: frozenset({Gate.HAND_OVER}),
}


def gates_before(to: IncidentStage | None, row: Incident) -> frozenset[Gate]:
    if row.state == IncidentState.PROPOSED:
        # What cordons nobody asks no more than a repair does: it takes no machine out of service.
        return _FROM_PROPOSED.get(to, frozenset()) if to else frozenset()
    return (
        frozenset({Gate.REPAIR}) if to in (IncidentStage.DRAINING, IncidentStage.COLLECTING) else frozenset()
    )


class WatchIncident(IncidentStep):
    name = "watch"
    look_every = LOOK_EVERY

    def look(self, row: Incident, operation: Operation) -> MachineObservation:
        return MachineObservation(plain_machine(row))


class HoldIncident(IncidentStep):
    """The kill switch is on, or a person holds it: nothing is done, and nothing is asked of the machine."""

    name = "stopped"
    look_every = LOOK_EVERY

    def __init__(self, backend_of: BackendOf, refusal: GuardRefusal) -> None:
        super().__init__(backend_of)
        self._refusal = refusal

    def look(self, row: Incident, operation: Operation) -> MachineObservation:
        return MachineObservation(plain_machine(row), refusal=self._refusal)


class AwaitPerson(IncidentStep):
    """Wait for a person; whoever uncordons the machine meanwhile has ended the incident."""

    name = "wait for a person"
    look_every = timedelta(seconds=30)
