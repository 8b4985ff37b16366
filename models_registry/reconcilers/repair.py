"""How a blob that is damaged or missing is fetched again: one of its versions is imported beside it."""

from contextlib import suppress
from datetime import datetime
from functools import partial

from common.jobs.rows import NEVER_LAUNCHED
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobObservation, JobSpec
from common.jobs.steps import CannotStart, check_fence
from common.reconcile import Effect, Operation, Step, StepOutcome, proceed
from common.reconcile.endings import moved
from common.sealed import CannotUnseal
from model_store import blob_store
from model_store.errors import BlobMissing
from model_store.file_manifest import FileManifest
from model_store.models import CorruptBlob
from model_store.reconcilers.staging_jobs import AwaitStagingJob, StartStagingJob
from model_store.states import OPEN_CORRUPT_BLOBS, CorruptBlobState
from models_registry import files
from models_registry.errors import SourceNotAllowed
from models_registry.importing.results import KEPT, ImportResult
from models_registry.importing.sources import readable_source, secret_of, source_of
from models_registry.models import Version
from models_registry.selectors import versions

_moved = partial(moved, OPEN_CORRUPT_BLOBS, is_held=True)


class _Repair:
    """The blob is to come back out of one of its versions, imported again beside it."""

    _version: Version | None
    _is_over: bool
    _is_fetched = False

    def look(self, row: CorruptBlob) -> bool:
        """Find the next version to be tried; whether there is one, and the blob is not back."""
        self._version = versions.versions_needing(row.sha256).exclude(pk__in=row.tried).first()
        self._is_over = self._version is None or _is_back(row, self._version)
        return not self._is_over

    def ended(self, row: CorruptBlob, now: datetime) -> StepOutcome:
        if self._version is not None:
            is_fetched = self._is_fetched or row.launches
            reason = f"From the source of {self._version}." if is_fetched else "Another import brought it."
            return _moved(CorruptBlobState.REPAIRED, now, reason=reason)
        if not versions.versions_needing(row.sha256).exists():
            return _moved(CorruptBlobState.UNNEEDED, now, reason="No version needs it any more.")
        reason = row.reason or "No source of its versions can be read any more."
        return _moved(CorruptBlobState.LOST, now, reason=reason)

    def next(self, row: CorruptBlob, why: str) -> StepOutcome:
        """The next version's source is tried, in a staging area of its own."""
        assert self._version is not None  # noqa: S101
        words = f"Not from the source of {self._version}: {why}"
        tried = {"tried": [*row.tried, self._version.pk], **NEVER_LAUNCHED, "reason": words}
        return proceed(save={**tried, "is_held": True})


class StartRepair(_Repair, StartStagingJob[CorruptBlob]):
    name = "start repair"

    def act(self, row: CorruptBlob, operation: Operation) -> None:
        if self.look(row):
            super().act(row, operation)

    def spec(self, row: CorruptBlob, op_key: str) -> JobSpec:
        assert self._version is not None  # noqa: S101
        try:
            # What was let in once may come back, whatever holds by now.
            source = source_of(readable_source(self._version), admits_runnable=True)
            return self.job(row, op_key, source, secret=secret_of(self._version.source))
        except (SourceNotAllowed, CannotUnseal) as error:
            raise CannotStart(str(error)) from None

    def settle(self, row: CorruptBlob, seen: None, now: datetime) -> StepOutcome:
        return self.ended(row, now) if self._is_over else super().settle(row, seen, now)

    def refused(self, row: CorruptBlob, why: str, now: datetime) -> StepOutcome:
        return self.next(row, why)


class AwaitRepair(_Repair, AwaitStagingJob[CorruptBlob]):
    """And take the one blob out of what it has fetched."""

    name = "await repair"
    effect = Effect.ABSOLUTE

    def act(self, row: CorruptBlob, operation: Operation) -> None:
        self._seen = super().observe(row, operation)
        if not self.look(row) or self._seen.result is None:
            return
        self._is_fetched = True
        result = ImportResult.from_json(dict(self._seen.result))
        found = [file for file in result.files if file.sha256 == row.sha256]
        if found:
            check_fence(row, operation)
            with suppress(BlobMissing):
                blob_store.store().publish(row.staging_key, FileManifest((found[0],)))
            assert self._version is not None  # noqa: S101
            self._is_over = _is_back(row, self._version)

    def observe(self, row: CorruptBlob, operation: Operation) -> JobObservation:
        """Return what `act` has observed: later changes wait for the next look."""
        return self._seen

    def settle(self, row: CorruptBlob, seen: JobObservation, now: datetime) -> StepOutcome:
        return self.ended(row, now) if self._is_over else super().settle(row, seen, now)

    def succeeded(self, row: CorruptBlob, seen: JobObservation, now: datetime) -> StepOutcome:
        reason = str((seen.result or {})["reason"]).removesuffix(KEPT).strip()
        return self.next(row, reason or "It holds other content by now.")

    def failed(self, row: CorruptBlob, seen: JobObservation, now: datetime) -> StepOutcome:
        return self.next(row, "The process that fetched it died too often.")


def _is_back(row: CorruptBlob, version: Version) -> bool:
    needed = [file for file in files.manifest_of(version).files if file.sha256 == row.sha256]
    try:
        blob_store.store().check(FileManifest(tuple(needed)))
    except BlobMissing:
        return False
    return True


def repair(row: CorruptBlob, runner: JobRunner) -> Step[CorruptBlob]:
    return AwaitRepair(runner) if row.job else StartRepair(runner)
