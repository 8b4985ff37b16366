"""The steps of a row that a job works for: start it, wait for it, stop it, collect what it has left.

A row has one job at a time; what it had before is stopped and removed first. A reconciler goes from one to
the next by the row's own columns (`RunsJob`): without a job it starts one, with one it waits for it.
"""

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

from common.errors import SlipwayError
from common.jobs.rows import NO_JOB
from common.jobs.runners.base import JobRunner, NoRoomForJob
from common.jobs.runners.subprocess import local_runner
from common.jobs.spec import BY_CIRCUMSTANCE, Ending, JobObservation, JobSpec, JobState, owner_of
from common.reconcile import (
    Effect,
    LeaseLost,
    Operation,
    Reconciled,
    Reconciler,
    Step,
    StepOutcome,
    proceed,
    pulses,
    wait,
)

LOOK_EVERY = timedelta(seconds=1)
LOOK_FOR_ROOM_EVERY = timedelta(seconds=10)
RELAUNCH_AFTER = timedelta(seconds=5)
MAX_LAUNCHES = 10

Row = TypeVar("Row", bound=Any)
"""A `Reconciled` that is a `RunsJob`, too; Python has no name for both."""


class CannotStart(SlipwayError):
    """No job can be made of what the row says; the message says why."""


def check_fence(row: Reconciled, operation: Operation) -> None:
    """Guard effects that do harm when late. Raises LeaseLost when the row was claimed anew since."""
    if not type(row)._default_manager.filter(pk=row.pk, fence=operation.fence).exists():
        raise LeaseLost


def owner(row: Reconciled) -> str:
    return owner_of(row._meta.label_lower, row.pk)


def stop_jobs(runner: JobRunner, row: Reconciled, *, besides: str = "") -> bool:
    """Ask those of the row to end, but for one; whether any still lives."""
    live = [name for name in runner.names(owner(row)) if name != besides and runner.observe(name).is_live]
    for name in live:
        runner.stop(name)
    return any(runner.observe(name).is_live for name in live)


def remove_jobs(runner: JobRunner, row: Reconciled, *, besides: str = "") -> None:
    """Remove the row's ended jobs, except `besides`, and what they have left."""
    for name in runner.names(owner(row)):
        if name != besides:
            runner.remove(name)


class JobReconciler(Reconciler[Row]):
    """Reconciler of rows that jobs work for. `runner`: where these run; default: on this machine."""

    def __init__(self, runner: JobRunner | None = None) -> None:
        self._runner = runner

    waits_for_host = False

    @property
    def runner(self) -> JobRunner:
        return self._runner or local_runner()

    def host_of(self, row: Row) -> str:
        """Return the host of its job while anybody there gives a sign of life: then another is launched
        elsewhere, and the store keeps its own exclusion.
        """
        if not row.job or not row.job_host:
            return ""
        is_there = row.job_host == self.runner.host or row.job_host in pulses.living_hosts()
        return str(row.job_host) if is_there else ""


class StartJob(Step[Row]):
    """The row's job is started; it is the only one that works for it."""

    name = "start job"
    effect = Effect.ABSOLUTE

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self._started = ""
        self._has_no_room = False
        self._refusal = ""

    @abstractmethod
    def spec(self, row: Row, op_key: str) -> JobSpec:
        """The job, under that key. Raises CannotStart."""

    def op_key(self, row: Row, operation: Operation) -> str:
        """Another one for what wishes may have made of the row since, though its turn is the same."""
        return f"{operation.op_key}:{getattr(row, 'attempt', 1)}"

    def act(self, row: Row, operation: Operation) -> None:
        try:
            spec = self.spec(row, self.op_key(row, operation))
        except CannotStart as error:
            self._refusal = str(error)
            return
        check_fence(row, operation)
        if stop_jobs(self.runner, row, besides=spec.name):
            return
        remove_jobs(self.runner, row, besides=spec.name)
        is_new = self.runner.observe(spec.name).state is JobState.GONE
        if is_new and not self.is_clear(row):
            return
        try:
            self.runner.start(spec)
        except NoRoomForJob:
            self._has_no_room = True
        else:
            self._started = spec.name

    def is_clear(self, row: Row) -> bool:
        """Whether nothing else than jobs of the row stands in its way; if not, it is looked again."""
        return True

    def settle(self, row: Row, seen: Any, now: datetime) -> StepOutcome:
        if self._refusal:
            return self.refused(row, self._refusal, now)
        if self._has_no_room:
            return wait(LOOK_FOR_ROOM_EVERY, save=self.without_room(row))
        if not self._started:
            return wait(LOOK_EVERY)
        return proceed(
            save={
                **self.begun(row),
                "job": self._started,
                "job_host": self.runner.host,
                "launches": row.launches + 1,
                "launched_at": now,
            }
        )

    def refused(self, row: Row, why: str, now: datetime) -> StepOutcome:
        """Return the outcome of CannotStart."""
        raise CannotStart(why)

    def without_room(self, row: Row) -> Mapping[str, Any]:
        """Return the row's fields while there is no room to start it."""
        return {}

    def begun(self, row: Row) -> Mapping[str, Any]:
        """Return the row's fields when the job is started."""
        return {}


class AwaitJob(Step[Row]):
    """The row's job is looked at until it has ended. One that died is followed by another, not for ever."""

    name = "await job"
    look_every: ClassVar[timedelta] = LOOK_EVERY
    max_launches: ClassVar[int] = MAX_LAUNCHES

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner

    def observe(self, row: Row, operation: Operation) -> JobObservation:
        return self.runner.observe(row.job)

    def settle(self, row: Row, seen: JobObservation, now: datetime) -> StepOutcome:
        if seen.is_live:
            return wait(self.look_every, save=self.underway(row, seen))
        if seen.state is JobState.SUCCEEDED:
            return self.succeeded(row, seen, now)
        counts = seen.ending not in BY_CIRCUMSTANCE
        if self.is_final(seen) or (counts and row.launches >= self.max_launches):
            return self.failed(row, seen, now)
        launches = row.launches if counts else max(0, row.launches - 1)
        save = {**self.underway(row, seen), **NO_JOB, "launches": launches}
        return proceed(save=save, after=RELAUNCH_AFTER)

    def is_final(self, seen: JobObservation) -> bool:
        """Whether another launch would end as this one did."""
        return seen.ending in (Ending.OUT_OF_MEMORY, Ending.TIME_LIMIT)

    def underway(self, row: Row, seen: JobObservation) -> Mapping[str, Any]:
        """Return the row's fields while the job runs."""
        return {}

    @abstractmethod
    def succeeded(self, row: Row, seen: JobObservation, now: datetime) -> StepOutcome:
        """Return the outcome of the job's result."""

    @abstractmethod
    def failed(self, row: Row, seen: JobObservation, now: datetime) -> StepOutcome:
        """Return the outcome when the job failed for good, or died too often."""

    @staticmethod
    def why_given_up(row: Row, seen: JobObservation, what: str) -> str:
        """`what` it was, and why no other follows, as sentences."""
        if seen.ending in (Ending.OUT_OF_MEMORY, Ending.TIME_LIMIT):
            return f"{what} failed. {seen.why} {seen.last_words}".strip()
        return f"{what} died {row.launches} times. {seen.last_words}".strip()


class StopJob(Step[Row]):
    """No job works for the row any more when it is over."""

    name = "stop job"
    effect = Effect.ABSOLUTE
    look_every: ClassVar[timedelta] = LOOK_EVERY

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self._lives = True

    def act(self, row: Row, operation: Operation) -> None:
        check_fence(row, operation)
        self._lives = stop_jobs(self.runner, row)

    def settle(self, row: Row, seen: Any, now: datetime) -> StepOutcome:
        return wait(self.look_every) if self._lives else self.stopped(row, now)

    def stopped(self, row: Row, now: datetime) -> StepOutcome:
        return proceed()


class CollectJob(StopJob[Row]):
    """And what its jobs have left is removed."""

    name = "collect job"

    def act(self, row: Row, operation: Operation) -> None:
        super().act(row, operation)
        remove_jobs(self.runner, row)

    def stopped(self, row: Row, now: datetime) -> StepOutcome:
        return proceed(save=NO_JOB)
