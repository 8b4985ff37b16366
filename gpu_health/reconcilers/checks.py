"""A check waits for an idle machine, runs as a Job there, and its report becomes readings."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from clusters.backends.configured import backend_of
from clusters.backends.node_operations import NodeOperations, OperationUnsupported, UnknownNode
from clusters.services.node_orders import order_for
from common.jobs.spec import JobObservation, JobSpec, JobState, owner_of
from common.reconcile import Effect, Operation, Reconciler, Step, StepOutcome, move, wait
from common.sentences import listed
from gpu_health.incident_facts import BY
from gpu_health.models import GpuCheck
from gpu_health.reconcilers.seeing import BackendOf, translated_refusals
from gpu_health.services.readings import store_readings
from gpu_health.signals.check_reports import NotAReport, read_report, readings
from gpu_health.states import CHECK_MOVES, CheckState
from gpu_health.verification import check_job, expected_gpus

LOOK_FOR_ROOM_EVERY = timedelta(seconds=15)
LOOK_EVERY = timedelta(seconds=2)
MOST_NAMED = 3


class CheckStep(Step[GpuCheck]):
    def __init__(self, backend_of: BackendOf) -> None:
        self._backend_of = backend_of

    def operations(self, row: GpuCheck) -> NodeOperations:
        with translated_refusals(row):
            return self._backend_of(row.node.cluster).node_operations

    def job(self, row: GpuCheck) -> JobSpec:
        return check_job(
            row.node,
            row.level,
            op_key=f"{row._meta.label_lower}:{row.pk}",
            owner=owner_of(row._meta.label_lower, row.pk),
        )


class WaitForIdle(CheckStep):
    """Nobody's work stands beside a check: it would be slowed down, and the figures wrong."""

    name = "wait for idle"

    def observe(
        self, row: GpuCheck, operation: Operation
    ) -> Sequence[str] | OperationUnsupported | UnknownNode:
        """Who computes there."""
        operations = self.operations(row)
        try:
            with translated_refusals(row):
                pods = operations.pods(row.node.uid)
        except (OperationUnsupported, UnknownNode) as error:
            return error
        return [one.title for one in pods if not one.has_ended and (one.has_gpu or one.deployment)]

    def settle(
        self, row: GpuCheck, seen: Sequence[str] | OperationUnsupported | UnknownNode, now: datetime
    ) -> StepOutcome:
        if row.cancelled_by:
            return _ended(CheckState.CANCELLED, f"Cancelled by {row.cancelled_by}.", now)
        if isinstance(seen, Exception):
            return _ended(CheckState.IMPOSSIBLE, str(seen), now)
        if not seen:
            return move(CheckState.RUNNING, save={"began_at": now, "why": ""})
        more = f" and {len(seen) - MOST_NAMED} more" if len(seen) > MOST_NAMED else ""
        why = f"Not idle: {listed(seen[:MOST_NAMED])}{more} on the machine."
        if now >= row.waits_until:
            return _ended(CheckState.IMPOSSIBLE, f"The machine was never idle in time. {why}", now)
        return wait(LOOK_FOR_ROOM_EVERY, save={"why": why})


class RunCheck(CheckStep):
    """Runs the check as a Job of one name for ever: whoever looks next finds it."""

    name = "run check"
    effect = Effect.ABSOLUTE
    _impossible = ""

    def act(self, row: GpuCheck, operation: Operation) -> None:
        operations, job = self.operations(row), self.job(row)
        try:
            with translated_refusals(row):
                seen = operations.jobs(row.node.uid).observe(job.name)
                if row.cancelled_by:
                    operations.jobs(row.node.uid).stop(job.name)
                elif seen.state is JobState.GONE and not row.is_started:
                    why = f"check {row.pk}"
                    order = order_for(row, operation, node=row.node, by=BY, reason=why, op_key=job.op_key)
                    operations.run_job(row.node.uid, job, order)
        except (OperationUnsupported, UnknownNode) as error:
            self._impossible = str(error)

    def observe(self, row: GpuCheck, operation: Operation) -> JobObservation | None:
        if self._impossible:
            return None
        operations = self.operations(row)
        with translated_refusals(row):
            return operations.jobs(row.node.uid).observe(self.job(row).name)

    def settle(self, row: GpuCheck, seen: JobObservation | None, now: datetime) -> StepOutcome:
        if seen is None:
            return _ended(CheckState.IMPOSSIBLE, self._impossible, now)
        if seen.is_live:
            return wait(LOOK_EVERY, save={"is_started": True})
        if row.cancelled_by:
            return _ended(CheckState.CANCELLED, f"Cancelled by {row.cancelled_by}.", now)
        if seen.state is JobState.GONE:
            if row.is_started:
                return _ended(CheckState.IMPOSSIBLE, "No trace of its Job is left.", now)
            return wait(LOOK_EVERY)
        told = seen.result
        try:
            report = read_report(told)
        except NotAReport:
            why = seen.last_words or seen.why or "The Job left no report."
            return _ended(CheckState.IMPOSSIBLE, why, now)
        if not (report.passed or report.failed or report.inconclusive):
            why = report.checks[0].words if report.checks else "Nothing could be checked."
            return _ended(CheckState.IMPOSSIBLE, why, now, report=told)
        expected = expected_gpus(row.node)
        is_whole = not report.gpus or len(report.gpus) >= expected
        total, why = len(report.checks), ""
        if report.failed:
            state, why = CheckState.FAILED, f"{len(report.failed)} of {total} checks failed."
        elif not is_whole:
            state = CheckState.FAILED
            why = f"Only {len(report.gpus)} of {expected} GPUs were there to be checked."
        elif unsure := report.inconclusive:
            state = CheckState.INCONCLUSIVE
            why = f"{len(unsure)} of {total} checks are inconclusive: {unsure[0].words}"
        else:
            state = CheckState.PASSED
            if report.warned:
                why = f"{len(report.warned)} of {total} checks warned: {report.warned[0].words}"

        def write() -> None:
            found = readings(report, at=now.timestamp(), origin=f"check/{row.pk}", node=row.node.name)
            store_readings(row.node, found)

        return move(state, save={"ended_at": now, "why": why, "report": told}, write=write, after=None)


def _ended(
    state: CheckState, why: str, now: datetime, *, report: Mapping[str, Any] | None = None
) -> StepOutcome:
    return move(state, save={"ended_at": now, "why": why, "report": report}, after=None)


class CheckReconciler(Reconciler[GpuCheck]):
    model = GpuCheck
    moves = CHECK_MOVES

    def __init__(self, backend_of: BackendOf = backend_of) -> None:
        self._backend_of = backend_of

    def rows(self) -> QuerySet[GpuCheck]:
        return GpuCheck.objects.select_related("node__cluster")

    def lane_of(self, row: GpuCheck) -> str:
        return row.node.cluster.own_lane

    def host_of(self, row: GpuCheck) -> str:
        return row.node.cluster.host

    def log_fields(self, row: GpuCheck) -> Mapping[str, Any]:
        return {"node": row.node.name}

    def next_step(self, row: GpuCheck, now: datetime) -> Step[GpuCheck] | None:
        if not row.is_open:
            return None
        if row.state == CheckState.WAITING:
            return WaitForIdle(self._backend_of)
        return RunCheck(self._backend_of)
