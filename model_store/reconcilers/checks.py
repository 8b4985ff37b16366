"""Steps of a check of the store: its process reads the blobs, then missing ones are looked for."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from common import audit
from common.actor import Actor
from common.jobs.rows import NEVER_LAUNCHED, NO_JOB
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobObservation, JobSpec
from common.jobs.steps import JobReconciler, remove_jobs
from common.reconcile import Effect, Operation, Step, StepOutcome, move, proceed
from model_store import blob_store, references
from model_store.errors import CheckFailed, StagingBusy
from model_store.models import Check, CorruptBlob
from model_store.processes.job import WholeStore
from model_store.processes.store_scrub import CheckProgress
from model_store.reconcilers.staging_jobs import AwaitStagingJob, StartStagingJob
from model_store.services import look_again
from model_store.states import RUN_MOVES, CorruptBlobState, RunState

ACTOR = Actor.system("store check")


class StartCheck(StartStagingJob[Check]):
    name = "start check"

    def spec(self, row: Check, op_key: str) -> JobSpec:
        return self.job(row, op_key, WholeStore(row.bytes_per_second))


class AwaitCheck(AwaitStagingJob[Check]):
    name = "await check"

    def underway(self, row: Check, seen: JobObservation) -> Mapping[str, Any]:
        return _figures(CheckProgress.from_json(dict(seen.progress))) if seen.progress else {}

    def failed(self, row: Check, seen: JobObservation, now: datetime) -> StepOutcome:
        raise CheckFailed(self.why_given_up(row, seen, "The checking process"))

    def succeeded(self, row: Check, seen: JobObservation, now: datetime) -> StepOutcome:
        result = CheckProgress.from_json(dict(seen.result or {}))

        def write() -> None:
            for damage in result.damages:
                if known := CorruptBlob.objects.open().filter(sha256=damage.sha256).first():
                    # It was lost, and what has come since is damaged as well.
                    look_again(known, CorruptBlobState.FOUND, mark=damage.mark, detail=damage.detail)
                else:
                    _record(CorruptBlob(found_by=row, found_at=now, **asdict(damage)))

        return proceed(save={**_figures(result), "has_read": True}, write=write)


def _figures(progress: CheckProgress) -> dict[str, int]:
    return {
        "blobs_done": progress.blobs_done,
        "blobs_total": progress.blobs_total,
        "bytes_done": progress.bytes_done,
        "bytes_total": progress.bytes_total,
        "damaged": len(progress.damages),
    }


class LookForMissing(Step[Check]):
    """Find referenced blobs that are missing."""

    name = "look for missing"
    effect = Effect.ABSOLUTE

    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner

    def act(self, row: Check, operation: Operation) -> None:
        """Remove the job's files."""
        with suppress(StagingBusy):
            blob_store.store().discard(row.staging_key, is_referenced=blob_store.needed)
        remove_jobs(self.runner, row)

    def observe(self, row: Check, operation: Operation) -> dict[str, int]:
        # Before the store is looked at: what becomes ready meanwhile is not missed.
        lacking = references.whole()
        # Those count as damaged.
        for sha256 in CorruptBlob.objects.open().filter(found_by=row).values_list("sha256", flat=True):
            lacking.pop(sha256, None)
        for _, blobs in blob_store.store().walk():
            for sha256 in blobs:
                lacking.pop(sha256, None)
        return lacking

    def settle(self, row: Check, seen: dict[str, int], now: datetime) -> StepOutcome:
        def write() -> None:
            known = set(CorruptBlob.objects.open().values_list("sha256", flat=True))
            for sha256, size in seen.items():
                if sha256 not in known:
                    why = "It is not in the store."
                    _record(CorruptBlob(found_by=row, found_at=now, sha256=sha256, size=size, detail=why))
            # What was lost and is no longer missing is back, or nothing needs it any more.
            for corrupt_blob in CorruptBlob.objects.filter(state=CorruptBlobState.LOST):
                if corrupt_blob.sha256 not in seen and corrupt_blob.found_by_id != row.pk:
                    look_again(corrupt_blob)

        return move(RunState.DONE, save={"missing": len(seen), "ended_at": now, **NO_JOB}, write=write)


def _record(corrupt_blob: CorruptBlob) -> None:
    size = references.size_of(corrupt_blob.sha256)
    if size is not None and corrupt_blob.size != size:
        corrupt_blob.detail += f" It has {corrupt_blob.size:,} bytes instead of {size:,}."
        corrupt_blob.size = size
    corrupt_blob.next_at = corrupt_blob.found_at
    corrupt_blob.save(force_insert=True)
    named = [owner.name for owner in references.owners_of(corrupt_blob.sha256)]
    detail = {"sha256": corrupt_blob.sha256, "versions": named[:100]}
    audit.record(ACTOR, "finding.found", subject=corrupt_blob, reason=corrupt_blob.detail, detail=detail)


class StoreCheckReconciler(JobReconciler[Check]):
    model = Check
    moves = RUN_MOVES

    def next_step(self, row: Check, now: datetime) -> Step[Check] | None:
        if not row.is_running:
            return None
        if row.has_read:
            return LookForMissing(self.runner)
        return AwaitCheck(self.runner) if row.job else StartCheck(self.runner)

    def on_move(self, row: Check, to: str, note: str) -> None:
        row.refresh_from_db(fields=["missing"])
        detail = {"blobs": row.blobs_done, "damaged": row.damaged, "missing": row.missing}
        audit.record(ACTOR, "store.checked", subject=row, detail=detail)

    def on_revive(self, row: Check, by: str, reason: str) -> Mapping[str, Any]:
        return NEVER_LAUNCHED
