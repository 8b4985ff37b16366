"""Where guards are asked, and where nothing is done."""

from dataclasses import replace
from datetime import datetime, timedelta

from common.reconcile import Effect, Operation, Outcome
from gpu_health.actions.base import Target
from gpu_health.healing.facts import (
    MachineFacts,
    Refusal,
    Stage,
)
from gpu_health.healing.guards import Gate
from gpu_health.models import Incident
from gpu_health.reconcilers.seeing import (
    LOOK_EVERY,
    BackendOf,
    IncidentStep,
    decided,
    plain_machine,
    pods_on,
)
from gpu_health.reconcilers.settling import Sight
from gpu_health.services.admission import admit
from gpu_health.states import IncidentState


class Gated(IncidentStep):
    """Waits until the guards let the incident through. Takes the slot with their answer."""

    name = "gate"
    effect = Effect.ABSOLUTE
    look_every = LOOK_EVERY
    _refusal: Refusal | None = None

    def __init__(self, backend_of: BackendOf, *, asks_machine: bool) -> None:
        super().__init__(backend_of)
        self._asks = asks_machine

    def see(self, row: Incident, target: Target, machine: MachineFacts, operation: Operation) -> Sight:
        return Sight(replace(machine, pods_left=len(pods_on(row))))

    def look(self, row: Incident, operation: Operation) -> Sight:
        if not self._asks:
            return Sight(plain_machine(row))
        return super().look(row, operation)

    def act(self, row: Incident, operation: Operation) -> None:
        seen = self.look(row, operation)
        gates = gates_before(decided(row, seen, operation.at).to, row)
        if gates:
            self._refusal = admit(row, gates, operation.at)

    def settle(self, row: Incident, seen: Sight, now: datetime) -> Outcome:
        return super().settle(row, replace(seen, refusal=self._refusal), now)


def gates_before(to: Stage | None, row: Incident) -> frozenset[Gate]:
    if row.state == IncidentState.PROPOSED:
        if to in (Stage.QUARANTINING, Stage.NEEDS_PERSON):
            return frozenset({Gate.QUARANTINE})
        return frozenset(Gate) if to is Stage.ACTING else frozenset()
    return frozenset({Gate.REPAIR}) if to in (Stage.DRAINING, Stage.COLLECTING) else frozenset()


class Watch(IncidentStep):
    name = "watch"
    look_every = LOOK_EVERY

    def look(self, row: Incident, operation: Operation) -> Sight:
        return Sight(plain_machine(row))


class Stopped(IncidentStep):
    """The kill switch is on, or a person holds it: nothing is done, and nothing is asked of the machine."""

    name = "stopped"
    look_every = LOOK_EVERY

    def __init__(self, backend_of: BackendOf, refusal: Refusal) -> None:
        super().__init__(backend_of)
        self._refusal = refusal

    def look(self, row: Incident, operation: Operation) -> Sight:
        return Sight(plain_machine(row), refusal=self._refusal)


class Waiting(IncidentStep):
    """For a person; whoever uncordons the machine meanwhile has ended it."""

    name = "wait for a person"
    look_every = timedelta(seconds=30)
