"""How a version's row advances: copy and judge its files, publish them, let go of what is left over."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from accounts.states import Right
from common import disk
from common.actor import Actor
from common.jobs.rows import NEVER_LAUNCHED, NO_JOB
from common.jobs.runners.base import JobRunner
from common.jobs.spec import Ending, JobObservation, JobSpec, JobState
from common.jobs.steps import AwaitJob, CollectJob, JobReconciler, StartJob, check_fence, owner
from common.reconcile import Effect, Operation, Outcome, Step, proceed, rest, wait
from models_registry import blob_store, files, quotas, vouching
from models_registry.errors import BlobMissing, QuotaExceeded, StoreFull
from models_registry.exemptions import admits_runnable
from models_registry.facts.summary import storable
from models_registry.importing.results import ImportResult
from models_registry.models import Upload, Version, VersionFile
from models_registry.moves import moved, point_at_newest
from models_registry.processes import facts_backfill
from models_registry.reconcilers.jobs import LOOK_EVERY, AwaitIntakeJob, LetGo, StartIntakeJob, let_go
from models_registry.services.storage import look_for_what_was_lost
from models_registry.sources import secret_of, source_of
from models_registry.states import VersionState

logger = logging.getLogger(__name__)

ACTOR = Actor.system("importer")
READ_AGAIN_AFTER = timedelta(hours=1)
SIGN_AGAIN_AFTER = timedelta(minutes=1)
NOT_FINISHED = "not finished"
"""Verdict of the scan of what failed; what somebody cancels has none."""
LOOK_FOR_ROOM_EVERY = timedelta(seconds=10)
NO_ROOM = "The disk is full: the import goes on by itself when there is room."
TIDY_EVERY = timedelta(milliseconds=500)


class StartImport(StartIntakeJob[Version]):
    name = "start import"

    def act(self, row: Version, operation: Operation) -> None:
        blob_store.forget_orphans()
        super().act(row, operation)

    def spec(self, row: Version, op_key: str) -> JobSpec:
        source = source_of(row.source, admits_runnable=admits_runnable(row.model))
        allowance = quotas.allowance_of(row.model.team)
        return self.job(row, op_key, source, secret=secret_of(row.source), allowance=allowance)

    def without_room(self, row: Version) -> dict[str, Any]:
        return {"bytes_per_second": 0, "reason": NO_ROOM}

    def begun(self, row: Version) -> dict[str, Any]:
        return {"reason": ""} if row.reason == NO_ROOM else {}


class AwaitImport(AwaitIntakeJob[Version]):
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

    def succeeded(self, row: Version, seen: JobObservation, now: datetime) -> Outcome:
        assert self._result is not None  # noqa: S101
        return _judged(row, self._result)

    def failed(self, row: Version, seen: JobObservation, now: datetime) -> Outcome:
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

    def settle(self, row: Version, seen: JobObservation, now: datetime) -> Outcome:
        if row.scan.get("cause") == StoreFull.cause:
            has_room = self._free_bytes >= row.scan["needed_bytes"]
            return _goes_on(row) if has_room else _waiting_for_room({})
        if seen.state is JobState.SUCCEEDED:
            return self.succeeded(row, seen, now)
        halted = {**(seen.progress or {}), "bytes_per_second": 0}
        if seen.is_live or seen.state is JobState.UNKNOWN:
            # It still says how fast it was.
            return wait(LOOK_EVERY, save=halted)
        return _paused({**halted, "reason": row.reason})


def _within_quota(row: Version, result: ImportResult) -> ImportResult:
    """The result, or a failed one when the team may not hold these files. An upload's room is reserved."""
    if result.outcome == "accepted":
        try:
            quotas.check(row.model.team, result.files, without=_upload_of(row))
        except QuotaExceeded as error:
            return ImportResult("failed", reason=str(error), cause=error.cause)
    return result


def _upload_of(row: Version) -> Upload | None:
    return Upload.objects.filter(version=row.pk).first() if row.source["kind"] == "upload" else None


def _paused(columns: dict[str, Any]) -> Outcome:
    """Nothing is due until somebody wakes the row; the step goes on then."""
    return Outcome(next_in=None, ends_step=False, save=columns)


def _waiting_for_room(columns: dict[str, Any]) -> Outcome:
    return wait(LOOK_FOR_ROOM_EVERY, save=columns)


def _goes_on(row: Version) -> Outcome:
    """In a new attempt, with what the last one left."""
    fresh = {"is_paused": False, "reason": "", "scan": {}, **NEVER_LAUNCHED}
    return wait(timedelta(0), save={**fresh, "attempt": row.attempt + 1})


def _judged(row: Version, result: ImportResult) -> Outcome:
    if result.outcome == "interrupted":
        columns = {
            "is_paused": True,
            "bytes_per_second": 0,
            "reason": result.reason,
            "scan": {"verdict": NOT_FINISHED, "cause": result.cause, "needed_bytes": result.needed_bytes},
            **_source(row, result),
        }
        return _waiting_for_room(columns) if result.cause == StoreFull.cause else _paused(columns)
    formats: dict[str, dict[str, int]] = {}
    for file in result.files:
        total = formats.setdefault(file.format, {"files": 0, "bytes": 0})
        total["files"] += 1
        total["bytes"] += file.size
    scan = {
        "verdict": {"accepted": "passed", "refused": "refused", "failed": NOT_FINISHED}[result.outcome],
        "cause": result.cause,
        "formats": formats,
        "refusals": [{"path": path, "reason": reason} for path, reason in result.refusals],
        "skipped": [{"path": path, "reason": reason} for path, reason in result.skipped],
        "code": [{"path": path, "reason": how} for path, how in result.code],
        "warnings": [storable(asdict(warned)) for warned in result.warnings],
        "pickles": [storable(asdict(advice)) for advice in result.pickles],
        "notes": list(result.facts.notes),
        "copied_bytes": result.copied_bytes,
        "seconds": result.seconds,
    }
    if result.outcome == "refused":
        return _moved(row, VersionState.REFUSED, reason=result.reason, scan=scan)
    if result.outcome == "failed":
        return _moved(row, VersionState.FAILED, reason=result.reason, scan=scan)
    manifest = result.manifest

    def write() -> None:
        # Another import may have taken the room meanwhile: then this step is tried again, and says so.
        quotas.hold(row.model.team)
        quotas.check(row.model.team, manifest.files, without=_upload_of(row))
        VersionFile.objects.bulk_create(
            (
                VersionFile(
                    version=row, path=file.path, size=file.size, sha256=file.sha256, format=file.format
                )
                for file in manifest.files
            ),
            batch_size=500,
        )

    facts = result.facts
    return proceed(
        save={
            **_source(row, result),
            "scan": scan,
            "reason": "",
            "size_bytes": manifest.size_bytes,
            "file_count": len(manifest.files),
            "bytes_done": manifest.size_bytes,
            "bytes_total": manifest.size_bytes,
            "files_done": len(manifest.files),
            "files_total": len(manifest.files),
            "architecture": facts.architecture,
            "parameters": facts.parameters,
            "context_length": facts.context_length,
            "dtype": facts.dtype,
            "quantization": facts.quantization,
            "config": facts.config,
            "facts": facts.details or None,
        },
        write=write,
    )


def _source(row: Version, result: ImportResult) -> dict[str, Any]:
    """The source with the commit that was found: whatever comes later comes from that one too."""
    return {"source": {**row.source, "commit": result.commit}} if result.commit else {}


@dataclass(frozen=True, slots=True)
class Published:
    digest: str
    signatures: list[vouching.Seen]


class Publish(Step[Version]):
    """Its files become blobs; only then is the version ready, together with what its signatures say.

    A file that is lost or set aside since it was copied ends the import: only another copy brings it back.
    """

    name = "publish"
    effect = Effect.ABSOLUTE

    def act(self, row: Version, operation: Operation) -> None:
        with suppress(BlobMissing):
            blob_store.store().publish(row.intake_key, files.manifest_of(row))

    def observe(self, row: Version, operation: Operation) -> Published | BlobMissing:
        manifest = files.manifest_of(row)
        try:
            blob_store.store().check(manifest)
        except BlobMissing as lost:
            return lost
        return Published(manifest.digest, vouching.look(row, manifest))

    def settle(self, row: Version, seen: Published | BlobMissing, now: datetime) -> Outcome:
        if isinstance(seen, BlobMissing):
            return _moved(row, VersionState.FAILED, reason=f"{seen} Retry the import.")
        save, write = moved(
            row,
            VersionState.READY,
            actor=ACTOR,
            detail={
                "digest": seen.digest,
                "bytes": row.size_bytes,
                "files": row.file_count,
                "signatures": {one.origin.value: one.verdict.verdict.value for one in seen.signatures},
            },
            digest=seen.digest,
            ready_at=now,
            vouched_at=vouching.done_at(row, seen.signatures, now),
        )

        def write_all() -> None:
            vouching.record(row, seen.signatures, now)
            write()
            look_for_what_was_lost(VersionFile.objects.filter(version=row).values("sha256"))

        return proceed(save=save, write=write_all)


class LetGoOfVersion(LetGo[Version]):
    look_every = TIDY_EVERY

    def keep(self, row: Version, operation: Operation) -> None:
        """What was verified of a failed sync: the next one need not fetch it again."""
        is_failed = row.state == VersionState.FAILED and row.scan.get("verdict") == NOT_FINISHED
        if is_failed and row.source["kind"] == "hub":
            blob_store.keep_unreferenced(row.intake_key, since=operation.at)

    def let_go_of_directories(self, row: Version) -> None:
        others = Version.objects.ready().filter(digest=row.digest)
        if row.state == VersionState.DELETED and row.digest and not others.exists():
            blob_store.store().dematerialise(row.digest)

    def settle(self, row: Version, seen: bool, now: datetime) -> Outcome:
        if seen or (row.state == VersionState.READY and row.vouched_at is None):
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

    def succeeded(self, row: Version, seen: JobObservation, now: datetime) -> Outcome:
        result = seen.result or {}
        if "details" not in result:
            return self._later(row, str(result.get("problem")))

        def write() -> None:
            Version.objects.filter(pk=row.pk).fill_in_facts(result["details"])
            point_at_newest(row.model_id)

        return proceed(write=write)

    def failed(self, row: Version, seen: JobObservation, now: datetime) -> Outcome:
        return self._later(row, f"{seen.why} {seen.last_words}")

    @staticmethod
    def _later(row: Version, why: str) -> Outcome:
        logger.warning("%s has no facts yet: %s", row, why)
        return proceed(save=NO_JOB, after=READ_AGAIN_AFTER)


class Vouch(Step[Version]):
    """Look at the signatures of a version again: a key is trusted since, or ours could not be made before."""

    name = "vouch"

    def observe(self, row: Version, operation: Operation) -> list[vouching.Seen]:
        return vouching.look(row, files.manifest_of(row))

    def settle(self, row: Version, seen: list[vouching.Seen], now: datetime) -> Outcome:
        def write() -> None:
            vouching.record(row, seen, now)

        done_at = vouching.done_at(row, seen, now)
        if done_at is None:
            return wait(SIGN_AGAIN_AFTER, write=write)
        return proceed(save={"vouched_at": done_at}, write=write)


class VersionReconciler(JobReconciler[Version]):
    model = Version
    right = Right.MODELS_WRITE

    def next_step(self, row: Version, now: datetime) -> Step[Version] | None:
        if row.state == VersionState.IMPORTING:
            return Publish() if row.file_count else self._import(row)
        if row.is_held:
            return LetGoOfVersion(self.runner)
        if row.state == VersionState.READY and row.vouched_at is None:
            return Vouch()
        if row.state == VersionState.READY and row.facts is None:
            return AwaitFacts(self.runner) if row.job else StartFacts(self.runner)
        return CollectJob(self.runner) if row.job else None

    def _import(self, row: Version) -> Step[Version]:
        if row.is_paused:
            return PauseImport(self.runner)
        return AwaitImport(self.runner) if row.job else StartImport(self.runner)


def _moved(row: Version, to: VersionState, *, reason: str = "", **columns: Any) -> Outcome:
    save, write = moved(row, to, actor=ACTOR, reason=reason, **columns)
    return proceed(save=save, write=write)
