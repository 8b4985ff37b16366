"""How an export advances: its process sends the version and commits it, once."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from accounts.states import Right
from common import events
from common.actor import Actor
from common.jobs.spec import JobObservation, JobSpec, JobState
from common.jobs.steps import CannotStart, JobReconciler, check_fence
from common.reconcile import Effect, Operation, Step, StepOutcome, wait
from common.sealed import CannotUnseal
from hubs.events import VersionExported
from hubs.export_result import ExportResult
from hubs.export_targets import check_export_endpoint, export_target
from hubs.models import Export
from hubs.processes.export import FILES
from hubs.reconcilers.transfers import TransferReconciler, moved
from hubs.services import exports
from hubs.states import TransferState
from model_store import blob_store
from model_store.errors import StagingBusy
from model_store.reconcilers.staging_jobs import (
    LOOK_EVERY,
    AwaitStagingJob,
    CleanupStaging,
    StartStagingJob,
    let_go,
)
from models_registry import files
from models_registry.errors import SourceNotAllowed
from models_registry.patterns import matching

ACTOR = Actor.system("exporter")
_moved = partial(moved, bytes_per_second=0)


class StartExport(StartStagingJob[Export]):
    name = "start export"

    def act(self, row: Export, operation: Operation) -> None:
        if blob_store.store().read_note(row.staging_key, FILES) is None:
            check_fence(row, operation)
            self._list_files(row)
        super().act(row, operation)

    def spec(self, row: Export, op_key: str) -> JobSpec:
        try:
            check_export_endpoint(row.endpoint)
            return self.job(row, op_key, export_target(row), secret=exports.token_of(row))
        except (SourceNotAllowed, CannotUnseal) as error:
            raise CannotStart(str(error)) from None

    @staticmethod
    def _list_files(row: Export) -> None:
        """Too many for a command line, they go ahead into the staging area."""
        held = {file.path: file for file in files.manifest_of(row.version).files}
        wanted = matching(held, allow=row.allow_patterns, ignore=row.ignore_patterns)
        listed = [(file.path, file.size, file.sha256) for file in map(held.__getitem__, wanted)]
        with suppress(StagingBusy), blob_store.store().staging(row.staging_key) as mine:
            mine.write_note(FILES, json.dumps(listed).encode())

    def refused(self, row: Export, why: str, now: datetime) -> StepOutcome:
        return _moved(TransferState.FAILED, now, reason=why)


class AwaitExport(AwaitStagingJob[Export]):
    name = "await export"

    def underway(self, row: Export, seen: JobObservation) -> Mapping[str, Any]:
        return seen.progress or {}

    def succeeded(self, row: Export, seen: JobObservation, now: datetime) -> StepOutcome:
        return _judged(row, ExportResult.from_json(dict(seen.result or {})), now)

    def failed(self, row: Export, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The process that sent it")
        return _moved(TransferState.FAILED, now, reason=why)


class PauseExport(AwaitExport):
    """Its job is stopped; nothing is due then until somebody wakes the row."""

    name = "pause export"
    effect = Effect.ABSOLUTE

    def act(self, row: Export, operation: Operation) -> None:
        check_fence(row, operation)
        let_go(self.runner, row)

    def settle(self, row: Export, seen: JobObservation, now: datetime) -> StepOutcome:
        if seen.state is JobState.SUCCEEDED:
            return self.succeeded(row, seen, now)
        if seen.is_live:
            return wait(LOOK_EVERY)
        return StepOutcome(next_in=None, ends_step=False)


def _judged(row: Export, result: ExportResult, now: datetime) -> StepOutcome:
    if result.outcome == "sent":
        had = "held it already; nothing was sent" if result.was_there else "holds it"
        what, compared = f"Commit {result.commit[:12]}", "It was compared file by file."
        if row.is_to_slipway:
            what, compared = f"Version {result.commit} there", "Its digest is the same."
        return _moved(
            TransferState.DONE,
            now,
            reason=f"{what} {had}. {compared}",
            commit=result.commit,
            bytes_done=row.bytes_total,
            files_done=row.files_total,
            **exports.FORGOTTEN,
        )
    if result.outcome == "failed":
        return _moved(TransferState.FAILED, now, reason=result.reason)
    if row.state == TransferState.PAUSED:
        return StepOutcome(next_in=None, ends_step=False)
    return _moved(TransferState.INTERRUPTED, now, reason=result.reason)


class ExportReconciler(TransferReconciler[Export], JobReconciler[Export]):
    model = Export
    right = Right.MODELS_EXPORT
    actor = ACTOR
    transfers = exports.EXPORTS

    def next_step(self, row: Export, now: datetime) -> Step[Export] | None:
        if row.state == TransferState.PAUSED:
            return PauseExport(self.runner)
        if row.state == TransferState.SENDING:
            return AwaitExport(self.runner) if row.job else StartExport(self.runner)
        return CleanupStaging[Export](self.runner) if row.is_held and not row.is_open else None

    def on_move(self, row: Export, to: str, note: str) -> None:
        if to == TransferState.DONE:
            row.refresh_from_db(fields=["commit"])
            events.publish(VersionExported(row.version_id, row.pk))
        super().on_move(row, to, note)
