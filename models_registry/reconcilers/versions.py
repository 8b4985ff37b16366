"""How a version's row advances: copy and judge its files, publish them, let go of what is left over."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from accounts.states import Right
from common import disk
from common.jobs.rows import NO_JOB
from common.jobs.runners.base import JobRunner
from common.jobs.spec import Ending, JobObservation, JobSpec, JobState
from common.jobs.steps import (
    AwaitJob,
    CannotStart,
    CollectJob,
    JobReconciler,
    StartJob,
    check_fence,
    owner,
)
from common.reconcile import Effect, Operation, Step, StepOutcome, proceed, pulses, rest, wait
from model_store import blob_store, quotas
from model_store.errors import StoreFull
from model_store.reconcilers.staging_jobs import (
    LOOK_EVERY,
    AwaitStagingJob,
    CleanupStaging,
    StartStagingJob,
    let_go,
)
from model_store.services import let_go_of_directory
from models_registry import files, signature_verification
from models_registry.errors import SourceNotAllowed
from models_registry.exemptions import admits_runnable
from models_registry.importing import facts_backfill
from models_registry.importing.results import ImportResult
from models_registry.importing.sources import secret_of, source_of
from models_registry.models import Version
from models_registry.reconcilers.imports import (
    NO_ROOM,
    NOT_FINISHED,
    PublishVersion,
    _goes_on,
    _judged,
    _paused,
    _waiting_for_room,
    _within_quota,
)
from models_registry.states import VersionState
from models_registry.transitions import point_at_newest

logger = logging.getLogger(__name__)


READ_AGAIN_AFTER = timedelta(hours=1)


SIGN_AGAIN_AFTER = timedelta(minutes=1)


TIDY_EVERY = timedelta(milliseconds=500)


class StartImport(StartStagingJob[Version]):
    name = "start import"

    def act(self, row: Version, operation: Operation) -> None:
        blob_store.forget_orphans()
        super().act(row, operation)

    def spec(self, row: Version, op_key: str) -> JobSpec:
        try:
            source = source_of(row.source, admits_runnable=admits_runnable(row.model))
        except SourceNotAllowed as error:
            raise CannotStart(str(error)) from None
        allowance = quotas.allowance_of(row.model.team)
        return self.job(row, op_key, source, secret=secret_of(row.source), allowance=allowance)

    def refused(self, row: Version, why: str, now: datetime) -> StepOutcome:
        return _judged(row, ImportResult("failed", reason=why))

    def without_room(self, row: Version) -> dict[str, Any]:
        return {"bytes_per_second": 0, "reason": NO_ROOM}

    def begun(self, row: Version) -> dict[str, Any]:
        return {"reason": ""} if row.reason == NO_ROOM else {}


class AwaitImport(AwaitStagingJob[Version]):
    name = "await import"

    def __init__(self, runner: JobRunner) -> None:
        super().__init__(runner)
        self._result: ImportResult | None = None
        """As far as the team may hold what it brings."""

    def observe(self, row: Version, operation: Operation) -> JobObservation:
        seen = super().observe(row, operation)
        if seen.result is not None:
            self._result = _within_quota(row, ImportResult.from_json(dict(seen.result)))
        return seen

    def underway(self, row: Version, seen: JobObservation) -> Mapping[str, Any]:
        return seen.progress or {}

    def succeeded(self, row: Version, seen: JobObservation, now: datetime) -> StepOutcome:
        assert self._result is not None  # noqa: S101
        return _judged(row, self._result)

    def failed(self, row: Version, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The importing process")
        if seen.ending is Ending.OUT_OF_MEMORY:
            why = "A file needs more memory to be checked than an import may take."
        return _judged(row, ImportResult("failed", reason=why))


class PauseImport(AwaitImport):
    """Its job is stopped, and what has come is kept until somebody, or room on the disk, lets it go on."""

    name = "pause import"
    effect = Effect.ABSOLUTE

    def act(self, row: Version, operation: Operation) -> None:
        check_fence(row, operation)
        let_go(self.runner, row)

    def observe(self, row: Version, operation: Operation) -> JobObservation:
        self._free_bytes = disk.room().free
        return super().observe(row, operation)

    def settle(self, row: Version, seen: JobObservation, now: datetime) -> StepOutcome:
        if row.scan.get("cause") == StoreFull.cause:
            has_room = self._free_bytes >= row.scan["needed_bytes"]
            return _goes_on(row) if has_room else _waiting_for_room({})
        if seen.state is JobState.SUCCEEDED:
            return self.succeeded(row, seen, now)
        halted = {**(seen.progress or {}), "bytes_per_second": 0}
        if seen.is_live:
            # It still says how fast it was.
            return wait(LOOK_EVERY, save=halted)
        return _paused({**halted, "reason": row.reason})


class CleanupVersion(CleanupStaging[Version]):
    look_every = TIDY_EVERY

    def keep(self, row: Version, operation: Operation) -> None:
        """Keep verified files of a failed sync: the next one need not fetch them again."""
        is_failed = row.state == VersionState.FAILED and row.scan.get("verdict") == NOT_FINISHED
        if is_failed and row.source["kind"] == "hub":
            blob_store.keep_unreferenced(row.staging_key, since=operation.at)

    def let_go_of_directories(self, row: Version) -> None:
        others = Version.objects.ready().filter(digest=row.digest)
        if row.state == VersionState.DELETED and row.digest and not others.exists():
            let_go_of_directory(row.digest)

    def settle(self, row: Version, seen: bool, now: datetime) -> StepOutcome:
        if seen or (row.state == VersionState.READY and row.signatures_checked_at is None):
            return super().settle(row, seen, now)
        return rest(save=self.LET_GO)


class StartFacts(StartJob[Version]):
    """A version from before facts were kept gets them, once, from its files."""

    name = "start facts"

    def spec(self, row: Version, op_key: str) -> JobSpec:
        manifest = files.manifest_of(row)
        return facts_backfill.spec(blob_store.store().address, manifest, op_key=op_key, owner=owner(row))


class AwaitFacts(AwaitJob[Version]):
    name = "await facts"
    max_launches = 1

    def succeeded(self, row: Version, seen: JobObservation, now: datetime) -> StepOutcome:
        result = seen.result or {}
        if "details" not in result:
            return self._later(row, str(result.get("problem")))

        def write() -> None:
            Version.objects.filter(pk=row.pk).fill_in_facts(result["details"])
            point_at_newest(row.model_id)

        return proceed(write=write)

    def failed(self, row: Version, seen: JobObservation, now: datetime) -> StepOutcome:
        return self._later(row, f"{seen.why} {seen.last_words}")

    @staticmethod
    def _later(row: Version, why: str) -> StepOutcome:
        logger.warning("%s has no facts yet: %s", row, why)
        return proceed(save=NO_JOB, after=READ_AGAIN_AFTER)


class VerifySignatures(Step[Version]):
    """Look at the signatures of a version again: a key is trusted since, or ours could not be made before."""

    name = "verify signatures"

    def observe(self, row: Version, operation: Operation) -> list[signature_verification.VerifiedSignature]:
        return signature_verification.look(row, files.manifest_of(row))

    def settle(
        self, row: Version, seen: list[signature_verification.VerifiedSignature], now: datetime
    ) -> StepOutcome:
        def write() -> None:
            signature_verification.record(row, seen, now)

        done_at = signature_verification.done_at(row, seen, now)
        if done_at is None:
            return wait(SIGN_AGAIN_AFTER, write=write)
        return proceed(save={"signatures_checked_at": done_at}, write=write)


class VersionReconciler(JobReconciler[Version]):
    model = Version
    right = Right.MODELS_WRITE

    def host_of(self, row: Version) -> str:
        """While it is imported from a directory of one host, or from what came there: that one."""
        there = str(row.source.get("host", "")) if row.state == VersionState.IMPORTING else ""
        if there and (there == self.runner.host or there in pulses.living_hosts()):
            return there
        return super().host_of(row)

    def next_step(self, row: Version, now: datetime) -> Step[Version] | None:
        if row.state == VersionState.IMPORTING:
            return PublishVersion() if row.file_count else self._import(row)
        if row.is_held:
            return CleanupVersion(self.runner)
        if row.state == VersionState.READY and row.signatures_checked_at is None:
            return VerifySignatures()
        if row.state == VersionState.READY and row.facts is None:
            return AwaitFacts(self.runner) if row.job else StartFacts(self.runner)
        return CollectJob(self.runner) if row.job else None

    def _import(self, row: Version) -> Step[Version]:
        if row.is_paused:
            return PauseImport(self.runner)
        return AwaitImport(self.runner) if row.job else StartImport(self.runner)
