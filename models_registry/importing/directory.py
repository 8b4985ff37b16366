"""One import from beginning to end: list, judge, copy, judge the copy. No database and no Django in here.

Everything is judged twice. First where it lies, so that a refusal comes in seconds and names all that is
wrong, not after 100 GB have been copied; then in the intake, where nobody can change it any more: that
judgement counts.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from models_registry.contents import Identified, OpenFile, check_together, code, identify, runnable
from models_registry.contents.pickle_scan import Advice, advice_on
from models_registry.contents.warnings import Warned, warnings_of
from models_registry.errors import (
    QuotaExceeded,
    Refused,
    SourceChanged,
    SourceUnreadable,
    StoreFull,
    StoreUnavailable,
)
from models_registry.facts.summary import ModelFacts, facts_of, storable
from models_registry.importing import source_tree
from models_registry.importing.allowance import Allowance
from models_registry.manifest import Manifest, ManifestFile, manifest_of
from models_registry.store.base import Intake

THREADS = 2
REPORT_EVERY_SECONDS = 0.5
MAX_REFUSALS = 50
MAX_CODE = 500
MAX_WARNINGS = 200
WHAT_TO_DO = "Mend what must not enter, or leave it out by an ignore pattern, and import again."
SMALL_BYTES = 1024 * 1024

F = TypeVar("F")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """The directory `path` below the import root `root`, without what matches `ignore_patterns`."""

    root: str
    path: str
    ignore_patterns: tuple[str, ...] = ()
    admits_runnable: bool = False
    """See `contents.identify`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an import stands. The rate is the mean since it began to copy; 0 before."""

    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int
    bytes_per_second: int
    reason: str = ""
    """Why nothing comes at the moment."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How an import ended.

    `accepted`: the intake holds `files`. `refused`: `refusals` say what must not enter. `failed`: `reason`
    says what stood in the way; the same import may succeed later. `interrupted`: so it does, and what the
    intake holds by then need not come again.
    """

    outcome: Literal["accepted", "refused", "failed", "interrupted"]
    reason: str = ""
    files: tuple[ManifestFile, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    """Files that carry or name code, and how: it keeps the version from being served, see `exemptions`."""
    warnings: tuple[Warned, ...] = ()
    pickles: tuple[Advice, ...] = ()
    facts: ModelFacts = field(default_factory=ModelFacts)
    copied_bytes: int = 0
    seconds: float = 0.0
    commit: str = ""
    """Of the repository that it came from."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ImportResult":
        """Raises KeyError, TypeError for what `as_json` did not make."""
        return cls(
            **{
                **data,
                "files": tuple(ManifestFile(**file) for file in data["files"]),
                "refusals": tuple((path, reason) for path, reason in data["refusals"]),
                "skipped": tuple((path, reason) for path, reason in data["skipped"]),
                "code": tuple((path, how) for path, how in data["code"]),
                "warnings": tuple(Warned(**warned) for warned in data["warnings"]),
                "pickles": tuple(map(Advice.from_json, data.get("pickles", ()))),
                "facts": ModelFacts(**{**data["facts"], "notes": tuple(data["facts"]["notes"])}),
            }
        )

    @property
    def manifest(self) -> Manifest:
        return manifest_of(self.files)


def import_directory(
    source: DirectorySource,
    intake: Intake,
    *,
    report: Callable[[Progress], None],
    threads: int = THREADS,
    allowance: Allowance | None = None,
) -> ImportResult:
    """Judge and copy a directory into `intake`, if the `allowance` has room for what the store lacks.

    What goes wrong is in the result; only bugs raise.
    """
    began = time.monotonic()
    try:
        with source_tree.opened(Path(source.root), source.path) as directory:
            listing = source_tree.list_files(directory, ignore_patterns=source.ignore_patterns)
            importing = _Import(
                intake,
                directory,
                listing,
                report,
                threads,
                admits_runnable=source.admits_runnable,
                allowance=allowance,
            )
            result = importing.run()
    except Refused as refusal:
        result = refused([refusal])
    except (SourceUnreadable, SourceChanged, StoreFull, StoreUnavailable, QuotaExceeded) as error:
        result = ImportResult("failed", reason=str(error))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        result = ImportResult("failed", reason=f"The system says: {error.strerror or error}{where}.")
    return replace(result, seconds=round(time.monotonic() - began, 3))


def refused(refusals: Sequence[Refused]) -> ImportResult:
    """The result that names them, the first 50."""
    named = tuple((refusal.path, refusal.reason) for refusal in refusals[:MAX_REFUSALS])
    more = f" and {len(refusals) - 1} more" if len(refusals) > 1 else ""
    return ImportResult("refused", reason=f"{refusals[0]}{more}. {WHAT_TO_DO}", refusals=named)


class Meter:
    """Counts bytes and files from several threads, and reports twice a second."""

    def __init__(self, *, size_bytes: int, files: int, report: Callable[[Progress], None]) -> None:
        self._total = (size_bytes, files)
        self._report = report
        self._lock = threading.Lock()
        self._bytes = self._files = self._found = 0
        self._reason = ""
        self._began = self._reported = time.monotonic()

    def count(self, size: int = 0, *, files: int = 0, always: bool = False) -> None:
        with self._lock:
            self._bytes += size
            self._files += files
            self._tell(always=always)

    def find(self, size: int) -> None:
        """Bytes that need not be moved any more: they count as done and not as speed."""
        with self._lock:
            self._found += size
            self._tell(always=False)

    def say(self, reason: str) -> None:
        """Why nothing comes at the moment; empty when it comes again."""
        with self._lock:
            if reason != self._reason:
                self._reason = reason
                self._tell(always=True)

    def _tell(self, *, always: bool) -> None:
        now = time.monotonic()
        if now - self._reported >= REPORT_EVERY_SECONDS or always:
            self._reported = now
            rate = int(max(0, self._bytes) / max(now - self._began, 0.001))
            done = self._bytes + self._found
            self._report(Progress(done, self._total[0], self._files, self._total[1], rate, self._reason))


def side_by_side(work: Callable[[F], T], files: Sequence[F], *, threads: int) -> list[T]:
    """`work` for each file, in order; after the first failure nothing new is begun, and it is raised."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, file) for file in files]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.exception() for future in done):
            pool.shutdown(cancel_futures=True)
        return [future.result() for future in futures if not future.cancelled()]


@dataclass(frozen=True, slots=True)
class Copied:
    """A file that the intake holds, and what it is; `copied_bytes` is 0 when the store held it before."""

    file: ManifestFile
    identified: Identified
    copied_bytes: int
    warnings: tuple[Warned, ...] = ()
    advice: Advice | None = None


def judged(intake: Intake, entry: ManifestFile, *, copied_bytes: int, admits_runnable: bool) -> Copied:
    """What a file is that the intake holds; nobody can change it any more. Raises Refused."""
    with intake.opened(entry.sha256) as content:
        identified = identify(entry.path, content, admits_runnable=admits_runnable)
        warnings = warnings_of(entry.path, identified.format, content)
        advice = advice_on(entry.path, identified.format, content)
    return Copied(entry, identified, copied_bytes, warnings, advice)


def judged_together(copied: Sequence[Copied], *, skipped: Sequence[tuple[str, str]]) -> ImportResult:
    """Accepted, or refused for what only shows when all files are there. Raises Refused."""
    refusals, settled = check_together([one.identified for one in copied])
    if refusals:
        return refused(refusals)
    formats = {identified.path: identified.format for identified in settled}
    manifest = manifest_of(replace(one.file, format=formats[one.file.path]) for one in copied)
    return ImportResult(
        "accepted",
        files=manifest.files,
        skipped=tuple(skipped),
        code=_code(settled),
        warnings=tuple(warned for one in copied for warned in one.warnings)[:MAX_WARNINGS],
        pickles=tuple(one.advice for one in copied if one.advice)[:MAX_CODE],
        facts=facts_of(settled),
        copied_bytes=sum(one.copied_bytes for one in copied),
    )


def _code(files: Sequence[Identified]) -> tuple[tuple[str, str], ...]:
    carried = [(file.path, code.CARRIED) for file in files if file.format == code.FORMAT]
    carried += [
        (file.path, runnable.carried(file.format)) for file in files if file.format in runnable.FORMATS
    ]
    named = [
        (file.path, storable(f"Its auto_map names {', '.join(file.names_code)}."))
        for file in files
        if file.names_code
    ]
    return tuple(sorted(carried + named)[:MAX_CODE])


class _Import:
    def __init__(
        self,
        intake: Intake,
        directory: int,
        listing: source_tree.Listing,
        report: Callable[[Progress], None],
        threads: int,
        *,
        admits_runnable: bool,
        allowance: Allowance | None,
    ) -> None:
        self._intake = intake
        self._admits_runnable = admits_runnable
        self._allowance = allowance
        self._directory = directory
        self._listing = listing
        self._threads = threads
        self._meter = Meter(size_bytes=listing.size_bytes, files=len(listing.files), report=report)

    def run(self) -> ImportResult:
        if self._listing.refusals:
            return refused(self._listing.refusals)
        # The largest first, so that no thread is left with a long tail.
        files = sorted(self._listing.files, key=lambda file: -file.size)
        looks = side_by_side(self._look, files, threads=self._threads)
        refusals = [look for look, _ in looks if isinstance(look, Refused)]
        found = [look for look, _ in looks if isinstance(look, Identified)]
        refusals += check_together(found)[0] if not refusals else []
        if refusals:
            return refused(refusals)
        new_bytes = [new_bytes for _, new_bytes in looks]
        if self._allowance:
            # Of small files it is not known yet whether they are new; all are judged when they are hashed.
            self._allowance.check(sum(size for size in new_bytes if size > SMALL_BYTES))
        self._intake.check_space(sum(new_bytes))
        self._meter.count(always=True)
        copied = side_by_side(self._copy, files, threads=self._threads)
        self._meter.count(always=True)
        return judged_together(copied, skipped=self._listing.skipped)

    def _look(self, file: source_tree.SourceFile) -> tuple[Identified | Refused, int]:
        """What the file seems to be, and how many bytes it will take in the store."""
        with source_tree.open_file(self._directory, file) as descriptor:
            content = OpenFile(descriptor, file.size)
            try:
                found: Identified | Refused = identify(
                    file.path, content, admits_runnable=self._admits_runnable
                )
            except Refused as refusal:
                return refusal, 0
            return found, 0 if self._intake.probably_held(content) else file.size

    def _copy(self, file: source_tree.SourceFile) -> Copied:
        with source_tree.open_file(self._directory, file) as descriptor:
            taken = self._intake.take(descriptor, file.size, counted=self._meter.count)
        entry = ManifestFile(file.path, taken.size, taken.sha256)
        copied = judged(
            self._intake, entry, copied_bytes=taken.copied_bytes, admits_runnable=self._admits_runnable
        )
        self._meter.count(files=1)
        return copied
