"""Out of service and back."""

from contextlib import suppress
from dataclasses import replace

from clusters.backends.node_operations import CordonedByOther
from common.reconcile import Effect, Operation
from gpu_health.actions.base import Target
from gpu_health.healing.facts import (
    MachineFacts,
)
from gpu_health.models import Incident
from gpu_health.reconcilers.seeing import TAINT, IncidentStep, asking
from gpu_health.reconcilers.settling import Sight
from gpu_health.services.draining import begin_drain, drain_work


class Quarantine(IncidentStep):
    name = "quarantine"
    effect = Effect.ABSOLUTE

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        order = self.order(row, operation, "cordon")
        operations = self.operations(row)
        with asking(row):
            try:
                operations.cordon(row.node.uid, order, TAINT)
            except CordonedByOther:  # it is cordoned, and stays theirs
                operations.taint(row.node.uid, TAINT, order)


class Drain(IncidentStep):
    """By the cluster's own drain: gateways first, then by budgets. It says what it waits for."""

    name = "drain"
    effect = Effect.CREATE

    def act(self, row: Incident, operation: Operation) -> None:
        if self.stays(row, operation):
            begin_drain(row, operation)

    def see(self, row: Incident, target: Target, machine: MachineFacts, operation: Operation) -> Sight:
        return Sight(replace(machine, drain=drain_work(row, operation)))


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
            with suppress(CordonedByOther):
                operations.uncordon(row.node.uid, order)
