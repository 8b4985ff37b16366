"""One import of an upload: take its contents over, verified, and judge its files. No database in here."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from model_store.backends.base import Staging
from model_store.errors import FileRefused, StoreFull
from model_store.file_manifest import ManifestFile
from model_store.upload_buffer import buffer_at
from models_registry.importing.judging import CopiedFile, judged, judged_together
from models_registry.importing.results import ImportResult, refused, stopped_by_the_system, waits_for_room
from models_registry.importing.transfer import THREADS, ImportProgress, TransferMeter, side_by_side

NAMED = 3


@dataclass(frozen=True, slots=True)
class UploadSource:
    """All contents have come to the upload buffer of this name, but for those that the store holds."""

    PROGRAM: ClassVar[str] = "models_registry.importing.upload_import"
    NEEDS_NETWORK: ClassVar[bool] = False

    buffer: str
    part_bytes: int
    admits_runnable: bool = False
    """See `trust.formats.identification.identify`."""


@dataclass(frozen=True, slots=True)
class _Content:
    """See `Announced`."""

    sha256: str
    size: int
    is_known: bool


def take_upload(
    store: str, source: UploadSource, staging: Staging, *, report: Callable[[ImportProgress], None]
) -> ImportResult:
    """Verify and judge an upload to the store of this address. What goes wrong is in the result; only bugs
    raise.

    Contents that are not what was announced begin anew in the upload buffer; the rest stays there till the
    end.
    """
    began = time.monotonic()
    try:
        result = _Ingest(store, source, staging, report).run()
    except FileRefused as refusal:
        result = refused([refusal])
    except FileNotFoundError:
        result = ImportResult("failed", reason="What has come of the upload is gone. Push it again.")
    except StoreFull as error:
        result = waits_for_room(error)
    except OSError as error:
        result = stopped_by_the_system(error)
    return replace(result, seconds=round(time.monotonic() - began, 3))


class _Ingest:
    def __init__(
        self, store: str, source: UploadSource, staging: Staging, report: Callable[[ImportProgress], None]
    ) -> None:
        self._buffer = buffer_at(store, source.buffer, part_bytes=source.part_bytes)
        self._admits_runnable = source.admits_runnable
        self._staging = staging
        self._files, self._known = self._buffer.manifest()
        size_bytes = sum(file.size for file in self._files)
        self._meter = TransferMeter(size_bytes=size_bytes, files=len(self._files), report=report)

    def run(self) -> ImportResult:
        self._meter.count(always=True)
        # One file of each content, the largest first, so that no thread is left with a long tail.
        contents = {file.sha256: file for file in sorted(self._files, key=lambda file: file.size)}
        came = side_by_side(self._take, list(contents.values())[::-1], threads=THREADS)
        lacking = [path for path in came if path]
        if lacking:
            more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
            return ImportResult(
                "failed",
                reason=f"{', '.join(lacking[:NAMED])}{more}: what came is not what was announced. It was "
                "damaged on the way, or the file changed meanwhile. Push again: only that has to come again.",
            )
        found = side_by_side(self._judged, self._files, threads=THREADS)
        refusals = [one for one in found if isinstance(one, FileRefused)]
        if refusals:
            return refused(refusals)
        self._meter.count(always=True)
        return judged_together([one for one in found if isinstance(one, CopiedFile)], skipped=())

    def _take(self, file: ManifestFile) -> str:
        """Hold the content of a file; its path when that has to come again, else nothing."""
        content = _Content(file.sha256, file.size, file.sha256 in self._known)
        if not self._buffer.is_awaited(content):
            if self._staging.hold(file.sha256, file.size):
                self._meter.find(file.size)
                return ""
            # The store held it when the upload began.
            self._buffer.open_anew(content)
            return file.path
        if self._buffer.is_missing(content):
            return file.path
        if self._buffer.hand_over(content, self._staging, counted=self._meter.count):
            return ""
        self._buffer.restart(content)
        return file.path

    def _judged(self, file: ManifestFile) -> CopiedFile | FileRefused:
        try:
            # Counted as copied whatever the store holds: else it would tell what other teams have.
            copied = judged(
                self._staging, file, copied_bytes=file.size, admits_runnable=self._admits_runnable
            )
        except FileRefused as refusal:
            return refusal
        self._meter.count(files=1)
        return copied
