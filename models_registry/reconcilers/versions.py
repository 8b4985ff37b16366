"""How a version's row advances: copy and judge its files, publish them, let go of what is left over."""

import logging
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from accounts.states import Right
from common import disk
from common.actor import Actor
from common.reconcile import Effect, Operation, Outcome, Reconciler, Step, proceed, rest, wait
from models_registry import blob_store, files, quotas, vouching
from models_registry.errors import BlobMissing, QuotaExceeded, StoreFull
from models_registry.exemptions import admits_runnable
from models_registry.facts.summary import storable
from models_registry.importing.results import ImportResult
from models_registry.models import Upload, Version, VersionFile
from models_registry.moves import moved, point_at_newest
from models_registry.processes.facts_backfill import NotReadable, read_facts
from models_registry.reconcilers import intake
from models_registry.reconcilers.intake import LOOK_EVERY, LetGo, Process, Start, launch
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


@dataclass(frozen=True, slots=True)
class Seen:
    """An import from outside; `result` as far as the team may hold what it brings."""

    process: intake.Seen
    result: ImportResult | None
    free_bytes: int


class Copy(Step[Version]):
    """The importing process runs until its result is in the intake."""

    name = "copy"
    effect = Effect.ABSOLUTE

    def __init__(self, row: Version, start: Start) -> None:
        self._process = Process(row, row.attempt, start)

    def act(self, row: Version, operation: Operation) -> None:
        if not self._process.is_to_be_started(operation.at, is_wanted=not row.is_paused):
            return
        blob_store.forget_orphans()
        source = source_of(row.source, admits_runnable=admits_runnable(row.model))
        allowance = quotas.allowance_of(row.model.team)
        self._process.start(operation, source, secret=secret_of(row.source), allowance=allowance)

    def observe(self, row: Version, operation: Operation) -> Seen:
        process = self._process.seen(operation.at)
        free_bytes = disk.room().free
        if process.result is None:
            return Seen(process, None, free_bytes)
        return Seen(process, _within_quota(row, ImportResult.from_json(process.result)), free_bytes)

    def settle(self, row: Version, seen: Seen, now: datetime) -> Outcome:
        process, progress = seen.process, seen.process.progress or {}
        if row.is_paused and row.scan.get("cause") == StoreFull.cause:
            return _goes_on(row) if seen.free_bytes >= row.scan["needed_bytes"] else _waiting_for_room({})
        if seen.result:
            return _judged(row, seen.result)
        if row.is_paused and not process.is_busy:
            return _paused({**progress, "bytes_per_second": 0, "reason": row.reason})
        if process.has_given_up:
            why = self._process.why_given_up("The importing process")
            return _judged(row, ImportResult("failed", reason=why))
        if process.is_without_room and not process.is_busy:
            halted = {"bytes_per_second": 0, "reason": NO_ROOM, **self._process.launched(now)}
            return _waiting_for_room({**progress, **halted})
        # A process that is told to pause still says how fast it was.
        speed = {"bytes_per_second": 0} if row.is_paused else {}
        said = {"reason": ""} if row.reason == NO_ROOM else {}
        return wait(LOOK_EVERY, save={**progress, **speed, **said, **self._process.launched(now)})


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
    fresh: dict[str, Any] = {
        "is_paused": False, "launches": 0, "launched_at": None, "reason": "", "scan": {},
    }  # fmt: skip
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
        return rest(save={"is_held": False})


class ReadFacts(Step[Version]):
    """A version from before facts were kept gets them, once, from its files."""

    name = "read facts"

    def observe(self, row: Version, operation: Operation) -> dict[str, Any] | NotReadable:
        try:
            return read_facts(blob_store.store().address, files.manifest_of(row))
        except NotReadable as error:
            return error

    def settle(self, row: Version, seen: dict[str, Any] | NotReadable, now: datetime) -> Outcome:
        if isinstance(seen, NotReadable):
            logger.warning("%s has no facts yet: %s", row, seen)
            return wait(READ_AGAIN_AFTER)

        def write() -> None:
            Version.objects.filter(pk=row.pk).fill_in_facts(seen)
            point_at_newest(row.model_id)

        return rest(write=write)


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


class VersionReconciler(Reconciler[Version]):
    model = Version
    right = Right.MODELS_WRITE

    def __init__(self, start: Start = launch) -> None:
        self._start = start

    def next_step(self, row: Version, now: datetime) -> Step[Version] | None:
        if row.state == VersionState.IMPORTING:
            return Publish() if row.file_count else Copy(row, self._start)
        if row.is_held:
            return LetGoOfVersion()
        if row.state == VersionState.READY and row.vouched_at is None:
            return Vouch()
        return ReadFacts() if row.state == VersionState.READY and row.facts is None else None


def _moved(row: Version, to: VersionState, *, reason: str = "", **columns: Any) -> Outcome:
    save, write = moved(row, to, actor=ACTOR, reason=reason, **columns)
    return proceed(save=save, write=write)
