"""Out of service and back."""

from contextlib import suppress
from dataclasses import replace

from clusters.backends.node_operations import CordonedByOther
from common.reconcile import Effect, Operation
from gpu_health.actions.base import ActionTarget
from gpu_health.healing.facts import (
    IncidentMachine,
)
from gpu_health.models import Incident
from gpu_health.reconcilers.seeing import TAINT, IncidentStep, translated_refusals
from gpu_health.reconcilers.settling import MachineObservation
from gpu_health.services.draining import begin_drain, drain_work


class QuarantineNode(IncidentStep):
    name = "quarantine"
    effect = Effect.ABSOLUTE

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        order = self.order(row, operation, "cordon")
        operations = self.operations(row)
        with translated_refusals(row):
            try:
                operations.cordon(row.node.uid, order, TAINT)
            except CordonedByOther:  # it is cordoned, and stays theirs
                operations.taint(row.node.uid, TAINT, order)


class DrainNode(IncidentStep):
    """Drain by the cluster's own drain: gateways first, then by budgets. It says what it waits for."""

    name = "drain"
    effect = Effect.CREATE

    def act(self, row: Incident, operation: Operation) -> None:
        if self.stays(row, operation):
            begin_drain(row, operation)

    def see(
        self, row: Incident, target: ActionTarget, machine: IncidentMachine, operation: Operation
    ) -> MachineObservation:
        return MachineObservation(replace(machine, drain=drain_work(row, operation)))


class ReturnNode(IncidentStep):
    """Our taint and our cordon go; a cordon of somebody else stays."""

    name = "return"
    effect = Effect.ABSOLUTE

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        order = self.order(row, operation, "uncordon")
        operations = self.operations(row)
        with translated_refusals(row):
            operations.untaint(row.node.uid, TAINT, order)
            with suppress(CordonedByOther):
                operations.uncordon(row.node.uid, order)
