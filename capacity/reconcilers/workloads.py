"""Steps of a workload: start on its cards, watch, ask for a checkpoint, stop, and back into the queue."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from capacity.disruption import RunnerOf, quota_name, run_name, runner_of
from capacity.events import WorkloadMoved
from capacity.ledger import since_checkpoint
from capacity.models import Allocation, Workload
from capacity.states import ENDED, WORKLOAD_MOVES, WorkloadAdmission, WorkloadState
from clusters.backends.base import CannotRun
from clusters.backends.node_operations import OperationUnsupported
from clusters.backends.workloads import ObservedWorkload, WorkloadRunner, WorkloadSpec
from common import audit, events
from common.actor import Actor
from common.errors import Unavailable
from common.jobs.spec import JobState
from common.live.touch import touch
from common.reconcile import Effect, Operation, Reconciler, Step, StepOutcome, kernel, move, wait

ACTOR = Actor.system("capacity")
LOOK_EVERY = timedelta(seconds=2)
START_LIMIT = timedelta(minutes=30)
"""A run that has not begun by then gives its cards back: its image does not come, or its pod has no place."""
KEPT_LINES, KEPT_CHARACTERS = 200, 4_000
GOES_ON_AFTER = timedelta(seconds=30)
"""A resumed run that lives so long, or wrote a checkpoint, goes on."""


@dataclass(frozen=True, slots=True)
class RunLook:
    """A run as observed. refusal: why the cluster can never start it."""

    run: ObservedWorkload
    refusal: str = ""


class RunStep(Step[Workload], ABC):
    """A look at the present run, which may have ended whatever the row is about to do."""

    effect = Effect.ABSOLUTE

    def __init__(self, runner_of: RunnerOf) -> None:
        self._runner_of = runner_of
        self._refusal = ""

    def runner(self, row: Workload) -> WorkloadRunner:
        return self._runner_of(row.pool.cluster)

    def observe(self, row: Workload, operation: Operation) -> RunLook:
        return RunLook(self.runner(row).observe(run_name(row), row.runs), self._refusal)

    def settle(self, row: Workload, seen: RunLook, now: datetime) -> StepOutcome:
        run, save = seen.run, _kept(row, seen.run)
        if seen.refusal:
            return _over(row, WorkloadState.FAILED, now, save, seen.refusal)
        if run.state == JobState.SUCCEEDED:
            return _over(row, WorkloadState.SUCCEEDED, now, save, "")
        if run.state == JobState.FAILED and not run.is_stopped:
            return _over(row, WorkloadState.FAILED, now, save, run.why)
        is_away = run.state == JobState.FAILED or (
            run.state == JobState.GONE and row.state != WorkloadState.STARTING
        )
        if is_away and row.cancelled_by:
            return _over(row, WorkloadState.CANCELLED, now, save, "")
        if run.is_queued and row.state in (WorkloadState.RUNNING, WorkloadState.CHECKPOINTING):
            return _back(row, now, save, run.why)
        if is_away:
            return _back(row, now, save, self.why_away(row))
        return self.judge(row, run, now, save)

    def why_away(self, row: Workload) -> str:
        return _("Its run was ended past it: it is queued again.")

    @abstractmethod
    def judge(self, row: Workload, run: ObservedWorkload, now: datetime, save: dict[str, Any]) -> StepOutcome:
        """Return the outcome of a run that lives, or has not begun."""


class StartRun(RunStep):
    name = "start"

    def act(self, row: Workload, operation: Operation) -> None:
        held = list(row.allocations.select_related("lender"))
        if row.pool.admission == WorkloadAdmission.KUEUE:
            self._start(row, self._spec(row, queue=quota_name(row.pool), priority=row.priority))
            return
        if not held:
            return
        pools = [row.pool, *(one.lender for one in held if one.lender is not None)]
        declared = {one["machine"] for pool in pools for one in pool.inventory}
        places: dict[str, tuple[int, ...]] = {}
        for one in held:
            visible = () if one.machine in declared else (one.card,)
            places[one.machine] = (*places.get(one.machine, ()), *visible)
        (machine, cards), *rest = places.items()
        self._start(row, self._spec(row, machine=machine, visible=cards, rest=tuple(rest)))

    def _spec(self, row: Workload, **place: Any) -> WorkloadSpec:
        return WorkloadSpec(
            name=run_name(row),
            run=row.runs,
            argv=tuple(row.command),
            cards=row.cards,
            machines=row.machines,
            image=row.image,
            claim=row.claim,
            checkpoint_seconds=row.checkpoint_seconds if row.writes_checkpoints else 0,
            **place,
        )

    def _start(self, row: Workload, spec: WorkloadSpec) -> None:
        try:
            self.runner(row).start(spec)
        except (OperationUnsupported, CannotRun) as error:
            self._refusal = str(error)

    def judge(self, row: Workload, run: ObservedWorkload, now: datetime, save: dict[str, Any]) -> StepOutcome:
        if run.state == JobState.RUNNING:
            return move(WorkloadState.RUNNING, save={**save, "state_since": now, "started_at": now})
        if run.is_queued:
            if row.held_by or row.cancelled_by:
                return move(WorkloadState.STOPPING, save={**save, "state_since": now})
            return wait(LOOK_EVERY, save={**save, "problem": run.why, "started_at": now})
        if now - (row.started_at or row.state_since) > START_LIMIT:
            late = _("It did not begin within %(minutes)s minutes. %(why)s")
            told = late % {"minutes": START_LIMIT.seconds // 60, "why": run.why}
            return move(WorkloadState.STOPPING, save={**save, "state_since": now, "problem": told})
        return wait(LOOK_EVERY, save={**save, "problem": run.why})


class WatchRun(RunStep):
    name = "watch"
    effect = Effect.NONE

    def judge(self, row: Workload, run: ObservedWorkload, now: datetime, save: dict[str, Any]) -> StepOutcome:
        if row.asked_at is not None and not row.writes_checkpoints and not row.may_lose_work:
            return _refused(row, now, save, _("It writes no checkpoints, and its policy keeps its work."))
        if row.asked_at is not None:
            to = WorkloadState.CHECKPOINTING if row.writes_checkpoints else WorkloadState.STOPPING
            return move(to, save={**save, "state_since": now})
        goes_on = run.checkpoint_at is not None and row.started_at and run.checkpoint_at > row.started_at
        is_known = row.resumed_at and row.started_at and row.resumed_at > row.started_at
        if row.runs > 1 and not is_known and (goes_on or now - row.state_since > GOES_ON_AFTER):
            save["resumed_at"] = now
        return wait(LOOK_EVERY, save=save)


class AskCheckpoint(RunStep):
    """Ask for a checkpoint and wait for it; without one, only whose policy says so is stopped."""

    name = "checkpoint"

    def act(self, row: Workload, operation: Operation) -> None:
        if row.asked_at is not None:
            self.runner(row).ask_checkpoint(run_name(row), row.runs, row.asked_at.isoformat())

    def judge(self, row: Workload, run: ObservedWorkload, now: datetime, save: dict[str, Any]) -> StepOutcome:
        if row.asked_at is None or run.answered == row.asked_at.isoformat():
            return move(WorkloadState.STOPPING, save={**save, "state_since": now, "problem": ""})
        if now - row.state_since <= timedelta(seconds=row.checkpoint_seconds):
            return wait(LOOK_EVERY / 2, save=save)
        late = _("It wrote no checkpoint within %(seconds)s s.") % {"seconds": row.checkpoint_seconds}
        if row.may_lose_work:
            return move(WorkloadState.STOPPING, save={**save, "state_since": now, "problem": late})
        return _refused(row, now, save, late)


class StopRun(RunStep):
    name = "stop"

    def act(self, row: Workload, operation: Operation) -> None:
        self.runner(row).stop(run_name(row), row.runs)

    def observe(self, row: Workload, operation: Operation) -> RunLook:
        """Its log may go with its pods: what it has written so far is kept before."""
        seen = super().observe(row, operation)
        if seen.run.state == JobState.RUNNING:
            with suppress(Unavailable):
                log = self.runner(row).log(run_name(row), row.runs, lines=KEPT_LINES)
                return replace(seen, run=replace(seen.run, log_tail=log))
        return seen

    def why_away(self, row: Workload) -> str:
        return row.problem

    def judge(self, row: Workload, run: ObservedWorkload, now: datetime, save: dict[str, Any]) -> StepOutcome:
        if run.state == JobState.GONE:
            to = WorkloadState.CANCELLED if row.cancelled_by else WorkloadState.QUEUED
            return _over(row, to, now, save, row.problem)
        return wait(LOOK_EVERY / 2, save=save)


class Cancel(Step[Workload]):
    """A workload that does not run ends at once."""

    name = "cancel"

    def settle(self, row: Workload, seen: Any, now: datetime) -> StepOutcome:
        return _over(row, WorkloadState.CANCELLED, now, {}, "")


def _kept(row: Workload, run: ObservedWorkload) -> dict[str, Any]:
    save: dict[str, Any] = {}
    if run.checkpoint_at is not None and run.checkpoint_at != row.checkpoint_at:
        save["checkpoint_at"] = run.checkpoint_at
    if run.log_tail:
        save["log_tail"] = run.log_tail[-KEPT_CHARACTERS:]
    return save


def _refused(row: Workload, now: datetime, save: dict[str, Any], why: str) -> StepOutcome:
    columns = {**save, "refused_at": now, "asked_at": None, "problem": why}
    if row.state == WorkloadState.RUNNING:
        return wait(LOOK_EVERY, save=columns)
    return move(WorkloadState.RUNNING, save={**columns, "state_since": now})


def _back(row: Workload, now: datetime, save: dict[str, Any], why: str) -> StepOutcome:
    """Queue the workload again; count what it did since its last checkpoint as lost."""
    if checkpoint := save.get("checkpoint_at"):
        row.checkpoint_at = checkpoint
    lost = since_checkpoint(row, now)
    worked = (now - row.started_at).total_seconds() if row.started_at else 0.0
    columns = {
        **save,
        "lost_seconds": row.lost_seconds + lost * row.cards * row.machines,
        "worked_seconds": row.worked_seconds + max(0.0, worked - lost),
    }
    return _over(row, WorkloadState.QUEUED, now, columns, why)


def _over(row: Workload, to: WorkloadState, now: datetime, save: dict[str, Any], why: str) -> StepOutcome:
    """Give the cards back with the move, in one transaction."""

    def write() -> None:
        Allocation.objects.filter(workload=row).delete()
        kernel.wake(row.pool)

    columns = {**save, "state_since": now, "asked_at": None, "problem": why}
    if to in ENDED:
        columns["ended_at"] = now
    return move(to, save=columns, write=write, after=None)


STEPS: dict[WorkloadState, type[RunStep]] = {
    WorkloadState.STARTING: StartRun,
    WorkloadState.RUNNING: WatchRun,
    WorkloadState.CHECKPOINTING: AskCheckpoint,
    WorkloadState.STOPPING: StopRun,
}


class WorkloadReconciler(Reconciler[Workload]):
    model = Workload
    moves = WORKLOAD_MOVES
    right = Right.CAPACITY_WRITE

    def __init__(self, runner_of: RunnerOf = runner_of) -> None:
        self._runner_of = runner_of

    def rows(self) -> QuerySet[Workload]:
        return Workload.objects.select_related("pool__cluster", "team")

    def host_of(self, row: Workload) -> str:
        return row.pool.cluster.host

    def next_step(self, row: Workload, now: datetime) -> Step[Workload] | None:
        W = WorkloadState
        if row.cancelled_by and row.state == W.QUEUED:
            return Cancel()
        if row.cancelled_by and row.state in (W.STARTING, W.RUNNING, W.CHECKPOINTING):
            return StopRun(self._runner_of)
        step = STEPS.get(W(row.state))
        return step(self._runner_of) if step is not None else None

    def on_move(self, row: Workload, to: str, note: Any) -> None:
        detail = {"from": row.state, "to": to}
        audit.record(ACTOR, "workload.move", subject=row, team_id=row.team_id, detail=detail)
        events.publish(WorkloadMoved(row.pk))
        touch("changes", "capacity")
