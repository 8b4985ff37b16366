"""How a version is imported: its job copies and judges its files, then they are published."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from common.actor import Actor
from common.jobs.rows import NEVER_LAUNCHED
from common.reconcile import Effect, Operation, Step, StepOutcome, proceed, wait
from model_store import blob_store, quotas
from model_store.errors import BlobMissing, StorageQuotaExceeded, StoreFull
from model_store.services import look_for_what_was_lost
from models_registry import files, signature_verification
from models_registry.importing.results import ImportResult
from models_registry.models import Upload, Version, VersionFile
from models_registry.states import VersionState
from models_registry.transitions import moved
from trust.formats.summary import storable

ACTOR = Actor.system("importer")


NOT_FINISHED = "not finished"
"""Verdict of the scan of what failed; what somebody cancels has none."""


LOOK_FOR_ROOM_EVERY = timedelta(seconds=10)


NO_ROOM = "The disk is full: the import goes on by itself when there is room."


def _within_quota(row: Version, result: ImportResult) -> ImportResult:
    """The result, or a failed one when the team may not hold these files. An upload's room is reserved."""
    if result.outcome == "accepted":
        try:
            quotas.check(row.model.team, result.files, without=_upload_of(row))
        except StorageQuotaExceeded as error:
            return ImportResult("failed", reason=str(error), cause=error.cause)
    return result


def _upload_of(row: Version) -> Upload | None:
    return Upload.objects.filter(version=row.pk).first() if row.source["kind"] == "upload" else None


def _paused(columns: dict[str, Any]) -> StepOutcome:
    """Nothing is due until somebody wakes the row; the step goes on then."""
    return StepOutcome(next_in=None, ends_step=False, save=columns)


def _waiting_for_room(columns: dict[str, Any]) -> StepOutcome:
    return wait(LOOK_FOR_ROOM_EVERY, save=columns)


def _goes_on(row: Version) -> StepOutcome:
    """Continue in a new attempt with the files of the last one."""
    fresh = {"is_paused": False, "reason": "", "scan": {}, **NEVER_LAUNCHED}
    return wait(timedelta(0), save={**fresh, "attempt": row.attempt + 1})


def _judged(row: Version, result: ImportResult) -> StepOutcome:
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
class PublishedVersion:
    digest: str
    signatures: list[signature_verification.VerifiedSignature]


class PublishVersion(Step[Version]):
    """Its files become blobs; only then is the version ready, together with what its signatures say.

    A file that is lost or set aside since it was copied ends the import: only another copy brings it back.
    """

    name = "publish"
    effect = Effect.ABSOLUTE

    def act(self, row: Version, operation: Operation) -> None:
        with suppress(BlobMissing):
            blob_store.store().publish(row.staging_key, files.manifest_of(row))

    def observe(self, row: Version, operation: Operation) -> PublishedVersion | BlobMissing:
        manifest = files.manifest_of(row)
        try:
            blob_store.store().check(manifest)
        except BlobMissing as lost:
            return lost
        return PublishedVersion(manifest.digest, signature_verification.look(row, manifest))

    def settle(self, row: Version, seen: PublishedVersion | BlobMissing, now: datetime) -> StepOutcome:
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
            signatures_checked_at=signature_verification.done_at(row, seen.signatures, now),
        )

        def write_all() -> None:
            signature_verification.record(row, seen.signatures, now)
            write()
            look_for_what_was_lost(VersionFile.objects.filter(version=row).values("sha256"))

        return proceed(save=save, write=write_all)


def _moved(row: Version, to: VersionState, *, reason: str = "", **columns: Any) -> StepOutcome:
    save, write = moved(row, to, actor=ACTOR, reason=reason, **columns)
    return proceed(save=save, write=write)
