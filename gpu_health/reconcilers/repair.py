"""What is done to the machine by jobs: evidence, one action, a check."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from clusters.backends.node_operations import CordonedByOther, OperationUnsupported
from clusters.states import NodeState
from common.models import Intent
from common.reconcile import Effect, Operation, StepOutcome, wait
from gpu_health.actions.base import ActionTarget
from gpu_health.actions.table import kind_for
from gpu_health.evidence_collection import COLLECT, known_evidence, told_by_job
from gpu_health.healing.facts import (
    IncidentMachine,
    MachineWork,
    WorkProgress,
)
from gpu_health.models import Incident
from gpu_health.policy.rule import RemediationAction, Verification
from gpu_health.reconcilers.seeing import LOOK_EVERY, TAINT, IncidentStep, plain_machine, translated_refusals
from gpu_health.reconcilers.settling import MachineObservation
from gpu_health.services.admission import note_paused_operands
from gpu_health.states import IncidentState
from gpu_health.verification import check_spec, demand_of, judged


class CollectEvidence(IncidentStep):
    name = "collect"
    effect = Effect.ABSOLUTE
    _impossible = ""

    def act(self, row: Incident, operation: Operation) -> None:
        if not self.stays(row, operation):
            return
        order = self.order(row, operation, "evidence")
        try:
            with translated_refusals(row):
                COLLECT.begin(self.target(row), order)
        except OperationUnsupported as error:
            self._impossible = str(error)

    def see(
        self, row: Incident, target: ActionTarget, machine: IncidentMachine, operation: Operation
    ) -> MachineObservation:
        if self._impossible:
            words = f"Only what was reported is kept: {self._impossible}"
            work, told = MachineWork(WorkProgress.IMPOSSIBLE, words), None
        else:
            try:
                name = COLLECT.spec(target, f"{operation.op_key}:evidence").name
                with translated_refusals(row):
                    seen = target.operations.jobs(row.node.uid).observe(name)
            except OperationUnsupported:
                return MachineObservation(machine)
            if seen.state.value == "gone":
                return MachineObservation(machine)
            work = MachineWork(
                WorkProgress.RUNNING if seen.is_live else WorkProgress.SUCCEEDED, "Evidence is collected."
            )
            told = seen.result
        if not work.has_ended:
            return MachineObservation(replace(machine, evidence=work))
        kept = {**known_evidence(row), "outputs": told_by_job(told)}
        return MachineObservation(replace(machine, evidence=work), save={"evidence": kept})


class TakeAction(IncidentStep):
    """Take one rung's action. It is begun at most once under its op_key."""

    name = "act"
    effect = Effect.IRREVERSIBLE
    _impossible = ""

    def intent(self, row: Incident) -> Mapping[str, Any]:
        return {"action": row.action, "gpu": row.gpu_uuid or row.device, "node": row.node.name}

    def act(self, row: Incident, operation: Operation) -> Mapping[str, Any] | None:
        target = self.target(row)
        if (why := called_off(row, target)) or target.seen is None:
            self._impossible = why or "The machine is gone."
            return {"called_off": self._impossible}
        order = self.order(row, operation, "act")
        try:
            with translated_refusals(row):
                if RemediationAction(row.action).needs_idle_driver and row.drill_id is None:
                    note_paused_operands(row)
                    target.operations.pause_operands(row.node.uid, order)
                kind_for(row).begin(target, order)
        except OperationUnsupported as error:
            self._impossible = str(error)
            return {"impossible": self._impossible}
        return None

    def happened(self, row: Incident, operation: Operation) -> bool | None:
        target = self.target(row)
        order = self.order(row, operation, "act")
        operations = target.operations
        with translated_refusals(row):
            try:
                # Whoever slept since carries a lower fence from now on.
                operations.cordon(row.node.uid, order) if row.is_quarantined else operations.untaint(
                    row.node.uid, TAINT, order
                )
            except CordonedByOther:
                operations.taint(row.node.uid, TAINT, order)
            return kind_for(row).happened(target, order)

    def see(
        self, row: Incident, target: ActionTarget, machine: IncidentMachine, operation: Operation
    ) -> MachineObservation:
        if self._impossible or (why := self._noted(operation)):
            return MachineObservation(
                replace(machine, act=MachineWork(WorkProgress.IMPOSSIBLE, self._impossible or why))
            )
        try:
            with translated_refusals(row):
                work = kind_for(row).look(target, f"{operation.op_key}:act")
        except OperationUnsupported as error:
            work = MachineWork(WorkProgress.IMPOSSIBLE, str(error))
        return MachineObservation(replace(machine, act=work))

    @staticmethod
    def _noted(operation: Operation) -> str:
        """Why it was not begun, as an earlier worker has noted."""
        found = Intent.objects.filter(op_key=operation.op_key).values_list("result", flat=True).first() or {}
        return str(found.get("called_off") or found.get("impossible") or "")


class ResumeOperands(IncidentStep):
    """Brings back what was paused for an action, as soon as that is over, whatever became of it.

    A step of its own that never ends the one under way: after it the incident stands where it stood.
    """

    name = "resume operands"
    effect = Effect.ABSOLUTE
    look_every = LOOK_EVERY
    _is_done = False

    def act(self, row: Incident, operation: Operation) -> None:
        if row.node.state == NodeState.GONE or self._another_acts(row):
            self._is_done = True
            return
        target = self.target(row)
        with translated_refusals(row):
            if target.seen is not None and not (
                row.state == IncidentState.ACTING and self._acts(row, target)
            ):
                target.operations.resume_operands(row.node.uid, self.order(row, operation, "resume"))
                self._is_done = True
        self._is_done = self._is_done or target.seen is None

    def observe(self, row: Incident, operation: Operation) -> MachineObservation:
        return MachineObservation(plain_machine(row))

    def settle(self, row: Incident, seen: MachineObservation, now: datetime) -> StepOutcome:
        if not self._is_done:
            return wait(self.look_every)
        return wait(timedelta(0), save={"has_operands_paused": False})

    @staticmethod
    def _another_acts(row: Incident) -> bool:
        """Whether a later incident of the machine has them paused: they are its to bring back."""
        others = Incident.objects.filter(node=row.node, state=IncidentState.ACTING, has_operands_paused=True)
        return others.exclude(pk=row.pk).exists()

    def _acts(self, row: Incident, target: ActionTarget) -> bool:
        """Whether the action's job runs."""
        op_key = f"{row._meta.label_lower}:{row.pk}:{row.turn}:{TakeAction.name}:act"
        return kind_for(row).look(target, op_key).progress is WorkProgress.RUNNING


def called_off(row: Incident, target: ActionTarget) -> str:
    """Why the machine must not be touched any more, whatever was decided a moment ago."""
    seen = target.seen
    if seen is None:
        return ""
    if row.is_quarantined and seen.cordon is None:
        return "Called off: somebody has uncordoned the machine."
    if row.session and seen.boot_id and row.session != seen.boot_id:
        return "Called off: the machine was restarted meanwhile."
    return ""


class VerifyRepair(IncidentStep):
    name = "verify"
    effect = Effect.ABSOLUTE
    _impossible = ""

    def act(self, row: Incident, operation: Operation) -> None:
        if row.verification in (Verification.NONE, Verification.PERSON) or not self.stays(row, operation):
            return
        order = self.order(row, operation, "check")
        target = self.target(row)
        try:
            with translated_refusals(row):
                target.operations.run_job(row.node.uid, check_spec(target, order.op_key), order)
        except OperationUnsupported as error:
            self._impossible = str(error)

    def see(
        self, row: Incident, target: ActionTarget, machine: IncidentMachine, operation: Operation
    ) -> MachineObservation:
        if row.verification in (Verification.NONE, Verification.PERSON):
            return MachineObservation(machine)
        if self._impossible:
            return MachineObservation(
                replace(machine, check=MachineWork(WorkProgress.IMPOSSIBLE, self._impossible))
            )
        name = check_spec(target, f"{operation.op_key}:check").name
        try:
            with translated_refusals(row):
                seen = target.operations.jobs(row.node.uid).observe(name)
        except OperationUnsupported:
            return MachineObservation(machine)
        if seen.state.value == "gone":
            return MachineObservation(machine)
        return MachineObservation(
            replace(machine, check=judged(seen, demand_of(row))),
            save={"check_result": dict(seen.result)} if seen.result is not None else None,
        )
