"""What jobs of runs in clusters hand in: progress, files, results."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Invalid, Unavailable, WrongState
from common.reconcile import kernel
from model_store.blob_store import needed, store
from model_store.errors import FileRefused, StagingBusy
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from optimization.limits import RunLimits
from optimization.models import OptimizationRun
from optimization.states import OptimizationState

STAGING = "optimization-job-"
SMALL_FILES_BYTES = 256 * 1024 * 1024
"""Beyond the weights: scores and what lies beside a model."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 1024 * 1024


class JobBody(Protocol):
    def read(self, size: int, /) -> bytes: ...


def key_of(run: OptimizationRun) -> str:
    """Return the key of the store's staging area for what the present job hands in."""
    return f"{STAGING}{run.pk}"


def take_progress(run: OptimizationRun, progress: Mapping[str, Any]) -> None:
    _working(run).update(progress=dict(progress))


def take_file(run: OptimizationRun, sha256: str, size: int, body: JobBody) -> None:
    """Keep a file in the model store's staging area. Raises WrongState, Invalid, StoreFull, Unavailable."""
    _working(run)
    if not _SHA256.fullmatch(sha256):
        raise Invalid(_("Name the file by its sha256 in hex."))
    if not 0 <= size <= (most := RunLimits.from_json(run.limits).disk_bytes + SMALL_FILES_BYTES):
        raise Invalid(_("A file of its output may have %(most)s bytes.") % {"most": f"{most:,}"})
    try:
        with store().staging(key_of(run)) as staging:
            if staging.hold(sha256, size):
                return
            with staging.part(sha256, size) as part:
                part.restart()
                digest = hashlib.sha256()
                for piece in _pieces(body, size):
                    part.append(piece)
                    digest.update(piece)
                if part.done != size or digest.hexdigest() != sha256:
                    part.restart()
                    raise Invalid(_("The file has other bytes than its sha256 says: send it again."))
                staging.complete(part, sha256)
    except StagingBusy as error:
        raise Unavailable(str(error)) from None


def take_result(run: OptimizationRun, result: Mapping[str, Any], files: Sequence[Mapping[str, Any]]) -> None:
    """Keep what the program said, once all of its files are here. Raises WrongState, Invalid."""
    _working(run)
    try:
        manifest = manifest_of(ManifestFile(**one) for one in files) if files else FileManifest(())
    except (FileRefused, TypeError) as error:
        raise Invalid(fields={"files": [str(error)]}) from None
    held = store().held(key_of(run)) if files else {}
    for one in manifest.files:
        if held.get(one.sha256) != one.size:
            raise Invalid(fields={"files": [_("%(path)s was not sent.") % {"path": one.path}]})
    if files:
        store().publish(key_of(run), manifest)
    handed_in = {"result": dict(result), "files": [dict(one) for one in files]}
    with transaction.atomic():
        _working(run).update(handed_in=handed_in)
        kernel.wake(run)


def bring_files(run: OptimizationRun, directory: Path) -> None:
    """Write the files that were handed in below a directory. Raises BlobMissing, StoreUnavailable."""
    for one in (run.handed_in or {}).get("files", ()):
        place = directory / one["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        with store().opened(one["sha256"]) as content, place.open("wb") as file:
            for start in range(0, content.size, _PIECE_BYTES):
                file.write(content.read_at(start, min(_PIECE_BYTES, content.size - start)))


def forget_staging(run: OptimizationRun) -> None:
    """Remove the staging area; what a version or a check refers to stays."""
    with suppress(StagingBusy):
        store().discard(key_of(run), is_referenced=needed)


def _working(run: OptimizationRun) -> Any:
    states = (OptimizationState.RUNNING, OptimizationState.CHECKING)
    rows = OptimizationRun.objects.filter(pk=run.pk, state__in=states)
    if not rows.exists():
        raise WrongState(_("No job works for %(run)s any more: nothing is taken.") % {"run": run})
    return rows


def _pieces(body: JobBody, size: int) -> Iterator[bytes]:
    left = size
    while left and (piece := body.read(min(left, _PIECE_BYTES))):
        left -= len(piece)
        yield piece
