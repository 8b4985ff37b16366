"""Out of service and back."""

from contextlib import suppress
from dataclasses import replace

from clusters.backends.node_operations import SomebodyElses
from common.reconcile import Effect, Operation
from gpu_health.actions.base import Target
from gpu_health.healing.facts import (
    MachineFacts,
)
from gpu_health.models import Incident
from gpu_health.reconcilers.seeing import TAINT, IncidentStep, asking, pods_on
from gpu_health.reconcilers.settling import Sight
from gpu_health.services.admission import note_drain


class Quarantine(IncidentStep):
    name = "quarantine"
    effect = Effect.ABSOLUTE

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        order = self.order(row, operation, "cordon")
        operations = self.operations(row)
        with asking(row):
            with suppress(SomebodyElses):  # it is cordoned, and stays theirs
                operations.cordon(row.node.uid, order)
            operations.taint(row.node.uid, TAINT, order)


class Drain(IncidentStep):
    name = "drain"
    effect = Effect.ABSOLUTE
    _words = ""

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        if row.drained_at is None or row.drained_at < row.state_since:
            note_drain(row, operation.at)
        order = self.order(row, operation, "evict")
        operations = self.operations(row)
        with asking(row):
            pods = {one.name: one for one in operations.pods(row.node.uid)}
        for worker in pods_on(row):
            if worker.name not in pods:
                continue
            with asking(row):
                came = operations.evict(row.node.uid, pods[worker.name], order)
            if not came.is_accepted:
                self._words = came.blocked_by

    def see(self, row: Incident, target: Target, machine: MachineFacts, operation: Operation) -> Sight:
        return Sight(replace(machine, pods_left=len(pods_on(row)), drain_words=self._words))


class Return(IncidentStep):
    """Our taint and our cordon go; a cordon of somebody else stays."""

    name = "return"
    effect = Effect.ABSOLUTE

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        order = self.order(row, operation, "uncordon")
        operations = self.operations(row)
        with asking(row):
            operations.untaint(row.node.uid, TAINT, order)
            with suppress(SomebodyElses):
                operations.uncordon(row.node.uid, order)
