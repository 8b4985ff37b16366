"""One import from beginning to end: list, judge, copy, judge the copy. No database and no Django in here.

Everything is judged twice. First where it lies, so that a refusal comes in seconds and names all that is
wrong, not after 100 GB have been copied; then in the staging area, where nobody can change it any more: that
judgement counts.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from model_store.allowance import Allowance
from model_store.backends.base import Staging
from model_store.errors import FileRefused, SourceChanged, StorageQuotaExceeded, StoreFull, StoreUnavailable
from model_store.file_manifest import ManifestFile
from model_store.reading import OpenFile
from models_registry.errors import SourceUnreadable
from models_registry.importing import source_tree
from models_registry.importing.judging import CopiedFile, judged, judged_together
from models_registry.importing.results import ImportResult, refused, stopped_by_the_system, waits_for_room
from models_registry.importing.transfer import THREADS, ImportProgress, TransferMeter, side_by_side
from trust.formats.identification import IdentifiedFile, check_together, identify

SMALL_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """The directory `path` below the import root `root`, without what matches `ignore_patterns`."""

    PROGRAM: ClassVar[str] = "models_registry.importing.directory_import"
    NEEDS_NETWORK: ClassVar[bool] = False

    root: str
    path: str
    ignore_patterns: tuple[str, ...] = ()
    admits_runnable: bool = False
    """See `trust.formats.identification.identify`."""


def import_directory(
    source: DirectorySource,
    staging: Staging,
    *,
    report: Callable[[ImportProgress], None],
    allowance: Allowance | None = None,
) -> ImportResult:
    """Judge and copy a directory into `staging`, if the `allowance` has room for what the store lacks.

    What goes wrong is in the result; only bugs raise.
    """
    began = time.monotonic()
    try:
        with source_tree.opened(Path(source.root), source.path) as directory:
            listing = source_tree.list_files(directory, ignore_patterns=source.ignore_patterns)
            importing = _Import(
                staging,
                directory,
                listing,
                report,
                admits_runnable=source.admits_runnable,
                allowance=allowance,
            )
            result = importing.run()
    except FileRefused as refusal:
        result = refused([refusal])
    except StoreFull as error:
        result = waits_for_room(error)
    except (SourceUnreadable, SourceChanged, StoreUnavailable, StorageQuotaExceeded) as error:
        result = ImportResult("failed", reason=str(error))
    except OSError as error:
        result = stopped_by_the_system(error)
    return replace(result, seconds=round(time.monotonic() - began, 3))


class _Import:
    def __init__(
        self,
        staging: Staging,
        directory: int,
        listing: source_tree.DirectoryListing,
        report: Callable[[ImportProgress], None],
        *,
        admits_runnable: bool,
        allowance: Allowance | None,
    ) -> None:
        self._staging = staging
        self._admits_runnable = admits_runnable
        self._allowance = allowance
        self._directory = directory
        self._listing = listing
        self._meter = TransferMeter(size_bytes=listing.size_bytes, files=len(listing.files), report=report)

    def run(self) -> ImportResult:
        if self._listing.refusals:
            return refused(self._listing.refusals)
        # The largest first, so that no thread is left with a long tail.
        files = sorted(self._listing.files, key=lambda file: -file.size)
        looks = side_by_side(self._look, files, threads=THREADS)
        refusals = [look for look, _ in looks if isinstance(look, FileRefused)]
        found = [look for look, _ in looks if isinstance(look, IdentifiedFile)]
        refusals += check_together(found)[0] if not refusals else []
        if refusals:
            return refused(refusals)
        new_bytes = [new_bytes for _, new_bytes in looks]
        if self._allowance:
            # Of small files it is not known yet whether they are new; all are judged when they are hashed.
            self._allowance.check(sum(size for size in new_bytes if size > SMALL_BYTES))
        self._staging.check_space(sum(new_bytes))
        self._meter.count(always=True)
        copied = side_by_side(self._copy, files, threads=THREADS)
        self._meter.count(always=True)
        return judged_together(copied, skipped=self._listing.skipped)

    def _look(self, file: source_tree.SourceFile) -> tuple[IdentifiedFile | FileRefused, int]:
        """Identify the file, and return how many bytes it will take in the store."""
        with source_tree.open_file(self._directory, file) as descriptor:
            content = OpenFile(descriptor, file.size)
            try:
                found: IdentifiedFile | FileRefused = identify(
                    file.path, content, admits_runnable=self._admits_runnable
                )
            except FileRefused as refusal:
                return refusal, 0
            return found, 0 if self._staging.probably_held(content) else file.size

    def _copy(self, file: source_tree.SourceFile) -> CopiedFile:
        with source_tree.open_file(self._directory, file) as descriptor:
            taken = self._staging.take(descriptor, file.size, counted=self._meter.count)
        entry = ManifestFile(file.path, taken.size, taken.sha256)
        copied = judged(
            self._staging, entry, copied_bytes=taken.copied_bytes, admits_runnable=self._admits_runnable
        )
        self._meter.count(files=1)
        return copied
