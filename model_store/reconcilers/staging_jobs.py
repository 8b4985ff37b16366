"""The job that works in a row's staging area, and what it has left there once nobody needs it."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, TypeVar

from common.jobs.rows import NO_JOB
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobSpec
from common.jobs.steps import AwaitJob, StartJob, check_fence, owner, remove_jobs, stop_jobs
from common.reconcile import Effect, Operation, Step, StepOutcome, proceed, wait
from model_store import blob_store
from model_store.allowance import Allowance
from model_store.errors import StagingBusy
from model_store.processes.job import JobInput, StagingJob

LOOK_EVERY = timedelta(seconds=1)
Staged = TypeVar("Staged", bound=Any)
"""A `Reconciled` that is `Launched`, too; Python has no name for both."""


class StartStagingJob(StartJob[Staged]):
    def is_clear(self, row: Staged) -> bool:
        """Return whether a job that another machine started has ended."""
        return not _is_busy(row)

    def job(
        self,
        row: Staged,
        op_key: str,
        source: JobInput,
        *,
        secret: str = "",
        allowance: Allowance | None = None,
    ) -> JobSpec:
        one = StagingJob(
            blob_store.store().address, row.staging_key, source, allowance=allowance, secret=secret
        )
        return one.spec(op_key, owner(row))


class AwaitStagingJob(AwaitJob[Staged]):
    """Await a job in a staging area."""


def let_go(runner: JobRunner, row: Staged) -> bool:
    """Ask whatever works in the row's staging area to stop, on any machine; whether nothing does."""
    return not stop_jobs(runner, row) and not _is_busy(row)


def _is_busy(row: Staged) -> bool:
    store = blob_store.store()
    is_busy = store.is_busy(row.staging_key)
    if is_busy:
        store.ask_to_stop(row.staging_key)
    return is_busy


class CleanupStaging(Step[Staged]):
    """Remove what the store holds for the row alone; blobs are left to the collection."""

    name = "let go"
    effect = Effect.ABSOLUTE
    look_every: ClassVar[timedelta] = LOOK_EVERY

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner

    def act(self, row: Staged, operation: Operation) -> None:
        check_fence(row, operation)
        if not let_go(self.runner, row):
            return
        self.keep(row, operation)
        with suppress(StagingBusy):
            blob_store.store().discard(row.staging_key, is_referenced=blob_store.needed)
        self.let_go_of_directories(row)
        remove_jobs(self.runner, row)

    def keep(self, row: Staged, operation: Operation) -> None:
        """Give to the store what somebody will want again; the rest goes with the staging area."""

    def let_go_of_directories(self, row: Staged) -> None:
        """Release directories of versions that are not to be served as they are."""

    def observe(self, row: Staged, operation: Operation) -> bool:
        return row.staging_key in blob_store.store().staging_keys()

    def settle(self, row: Staged, seen: bool, now: datetime) -> StepOutcome:
        if seen:
            return wait(self.look_every)
        return proceed(save=self.LET_GO, write=partial(self.tell, row))

    LET_GO: ClassVar[Mapping[str, Any]] = {"is_held": False, **NO_JOB}

    def tell(self, row: Staged) -> None:
        """Publish what others wait for, now that it is gone."""
