"""How a version's row advances: copy and judge its files, publish them, let go of what is left over."""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from django.conf import settings

from common.actor import Actor
from common.reconcile import Effect, LeaseLost, Operation, Outcome, Reconciler, Step, proceed, rest, wait
from models_registry import files, quotas, vouching
from models_registry.errors import IntakeBusy, QuotaExceeded
from models_registry.exemptions import admits_runnable
from models_registry.facts.summary import storable
from models_registry.importing.directory import ImportResult
from models_registry.models import Upload, Version, VersionFile
from models_registry.moves import moved, point_at_newest
from models_registry.processes import importer
from models_registry.processes.importer import PROGRESS, RESULT, STARTED, Job
from models_registry.processes.rereader import NotReadable, read_facts
from models_registry.services.hubs import token_of
from models_registry.sources import source_of
from models_registry.states import VersionState

logger = logging.getLogger(__name__)

ACTOR = Actor.system("importer")
LOOK_EVERY = timedelta(seconds=1)
READ_AGAIN_AFTER = timedelta(hours=1)
SIGN_AGAIN_AFTER = timedelta(minutes=1)
TIDY_EVERY = timedelta(milliseconds=500)
MAX_LAUNCHES = 10
QUIET_AFTER_LAUNCH = timedelta(seconds=5)
"""A new process needs a moment until it holds its lock; no second one is started meanwhile."""


def launch(job: Job) -> None:
    """Start the importing process; its last words go to a file in the log directory."""
    importer.launch(job, log=last_words_path(job.key))


def last_words_path(key: str) -> Path:
    return Path(settings.SLIPWAY_LOG_DIR) / "imports" / f"{key}.log"


@dataclass(frozen=True, slots=True)
class Seen:
    """What an import looks like from outside."""

    state: Literal["launched", "running", "finished", "given up", "paused"]
    progress: dict[str, Any]
    result: ImportResult | None = None


class Copy(Step[Version]):
    """The importing process runs until its result is in the intake."""

    name = "copy"
    effect = Effect.ABSOLUTE

    def __init__(self, start: Callable[[Job], None]) -> None:
        self._start = start
        self._has_launched = False

    def act(self, row: Version, operation: Operation) -> None:
        store, key = files.store(), str(row.pk)
        if _note(row, RESULT) is not None:
            return
        if store.is_busy(key):
            is_old = _note(row, STARTED) is None and not _is_fresh(row, operation)
            if is_old or row.is_paused:
                # Somebody works on it, but for an attempt that is over.
                store.ask_to_stop(key)
            return
        if row.launches >= MAX_LAUNCHES or _is_fresh(row, operation) or row.is_paused:
            return
        files.forget_orphans()
        _check_fence(row, operation)
        guardian = importer.guardian()
        self._start(
            Job(
                store=store.address,
                key=key,
                attempt=row.attempt,
                source=source_of(row.source, admits_runnable=admits_runnable(row.model)),
                allowance=quotas.allowance_of(row.model.team),
                guardian_pid=guardian.pid,
                guardian_started=guardian.create_time(),
                secret=token_of(row.source),
            )
        )
        self._has_launched = True

    def observe(self, row: Version, operation: Operation) -> Seen:
        progress = _note(row, PROGRESS) or {}
        result = _note(row, RESULT)
        if result is not None:
            return Seen("finished", progress, _within_quota(row, ImportResult.from_json(result)))
        if self._has_launched:
            return Seen("launched", progress)
        if row.is_paused and not files.store().is_busy(str(row.pk)) and not _is_fresh(row, operation):
            return Seen("paused", progress)
        if row.launches >= MAX_LAUNCHES and not files.store().is_busy(str(row.pk)):
            return Seen("given up", progress)
        return Seen("running", progress)

    def settle(self, row: Version, seen: Seen, now: datetime) -> Outcome:
        if seen.result:
            return _judged(row, seen.result)
        if seen.state == "given up":
            why = f"The importing process died {row.launches} times. {_last_words(row)}".strip()
            return _moved(row, VersionState.FAILED, reason=why)
        if seen.state == "paused":
            return _paused({**seen.progress, "bytes_per_second": 0, "reason": row.reason})
        launched = {"launches": row.launches + 1, "launched_at": now} if seen.state == "launched" else {}
        return wait(LOOK_EVERY, save={**seen.progress, **launched})


def _within_quota(row: Version, result: ImportResult) -> ImportResult:
    """The result, or a failed one when the team may not hold these files. An upload's room is reserved."""
    if result.outcome == "accepted":
        try:
            quotas.check(row.model.team, result.files, without=_upload_of(row))
        except QuotaExceeded as error:
            return ImportResult("failed", reason=str(error))
    return result


def _upload_of(row: Version) -> Upload | None:
    return Upload.objects.filter(version=row.pk).first() if row.source["kind"] == "upload" else None


def _is_fresh(row: Version, operation: Operation) -> bool:
    return row.launched_at is not None and operation.at - row.launched_at < QUIET_AFTER_LAUNCH


def _paused(columns: dict[str, Any]) -> Outcome:
    """Nothing is due until somebody wakes the row; the step goes on then."""
    return Outcome(next_in=None, ends_step=False, save=columns)


def _judged(row: Version, result: ImportResult) -> Outcome:
    if result.outcome == "interrupted":
        return _paused(
            {"is_paused": True, "bytes_per_second": 0, "reason": result.reason, **_source(row, result)}
        )
    formats: dict[str, dict[str, int]] = {}
    for file in result.files:
        total = formats.setdefault(file.format, {"files": 0, "bytes": 0})
        total["files"] += 1
        total["bytes"] += file.size
    scan = {
        "verdict": {"accepted": "passed", "refused": "refused", "failed": "not finished"}[result.outcome],
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


class Publish(Step[Version]):
    """Its files become blobs; only then is the version ready, together with what its signatures say."""

    name = "publish"
    effect = Effect.ABSOLUTE

    def act(self, row: Version, operation: Operation) -> None:
        files.store().publish(str(row.pk), files.manifest_of(row))

    def observe(self, row: Version, operation: Operation) -> tuple[str, list[vouching.Seen]]:
        manifest = files.manifest_of(row)
        files.store().check(manifest)
        return manifest.digest, vouching.look(row, manifest)

    def settle(self, row: Version, seen: tuple[str, list[vouching.Seen]], now: datetime) -> Outcome:
        digest, signatures = seen
        save, write = moved(
            row,
            VersionState.READY,
            actor=ACTOR,
            detail={
                "digest": digest,
                "bytes": row.size_bytes,
                "files": row.file_count,
                "signatures": {one.origin.value: one.verdict.verdict.value for one in signatures},
            },
            digest=digest,
            ready_at=now,
            vouched_at=vouching.done_at(row, signatures, now),
        )

        def write_all() -> None:
            vouching.record(row, signatures, now)
            write()

        return proceed(save=save, write=write_all)


class LetGo(Step[Version]):
    """What the store holds for the row alone is removed; blobs are left to the collection."""

    name = "let go"
    effect = Effect.ABSOLUTE

    def act(self, row: Version, operation: Operation) -> None:
        store, key = files.store(), str(row.pk)
        _check_fence(row, operation)
        if store.is_busy(key):
            store.ask_to_stop(key)
            return
        with suppress(IntakeBusy):
            store.discard(key, is_referenced=files.needed)
        others = Version.objects.ready().filter(digest=row.digest)
        if row.state == VersionState.DELETED and row.digest and not others.exists():
            store.dematerialise(row.digest)
        last_words_path(key).unlink(missing_ok=True)

    def observe(self, row: Version, operation: Operation) -> bool:
        return str(row.pk) in files.store().intakes()

    def settle(self, row: Version, seen: bool, now: datetime) -> Outcome:
        if seen:
            return wait(TIDY_EVERY)
        if row.state == VersionState.READY and row.vouched_at is None:
            return proceed(save={"is_held": False}, write=lambda: None)
        return rest(save={"is_held": False})


class ReadFacts(Step[Version]):
    """A version from before facts were kept gets them, once, from its files."""

    name = "read facts"

    def observe(self, row: Version, operation: Operation) -> dict[str, Any] | NotReadable:
        try:
            return read_facts(files.store().address, files.manifest_of(row))
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
    kind = "version"
    model = Version

    def __init__(self, start: Callable[[Job], None] = launch) -> None:
        self._start = start

    def next_step(self, row: Version, now: datetime) -> Step[Version] | None:
        if row.state == VersionState.IMPORTING:
            return Publish() if row.file_count else Copy(self._start)
        if row.is_held:
            return LetGo()
        if row.state == VersionState.READY and row.vouched_at is None:
            return Vouch()
        return ReadFacts() if row.state == VersionState.READY and row.facts is None else None


def _check_fence(row: Version, operation: Operation) -> None:
    """For effects that do harm when they come late; what still slips through, the next import clears away."""
    if not Version.objects.filter(pk=row.pk, fence=operation.fence).exists():
        raise LeaseLost


def _moved(row: Version, to: VersionState, *, reason: str = "", **columns: Any) -> Outcome:
    save, write = moved(row, to, actor=ACTOR, reason=reason, **columns)
    return proceed(save=save, write=write)


def _note(row: Version, name: str) -> dict[str, Any] | None:
    """A note of this attempt's importing process."""
    found = files.store().read_note(str(row.pk), name)
    if found is None:
        return None
    note: dict[str, Any] = json.loads(found)
    return note if note.pop("attempt") == row.attempt else None


def _last_words(row: Version) -> str:
    try:
        lines = last_words_path(str(row.pk)).read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return f"Its last words: {lines[-1][:500]}" if lines else ""
