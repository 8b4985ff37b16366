"""One sync of a repository into a staging area: list, judge, fetch, verify, judge again. No database in here.

Nothing that a hub says is believed: names are judged as those of a directory are, sizes and hashes are
verified over the bytes that came, and what came earlier is hashed again before more is added to it.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from hubs.backends.base import (
    AccessRefused,
    HubClient,
    HubError,
    HubFile,
    HubMisbehaves,
    HubUnreachable,
    NameUnresolved,
    RateLimited,
)
from hubs.retry import Retry
from hubs.source import RepositorySource
from model_store.allowance import Allowance
from model_store.backends.base import PartialFile, Staging
from model_store.errors import FileRefused, StorageQuotaExceeded, StoreFull, StoreUnavailable
from model_store.file_manifest import ManifestFile
from model_store.paths import check_collisions, check_file_path, printable
from model_store.reading import WindowedContent
from models_registry.importing.judging import CopiedFile, judged, judged_together
from models_registry.importing.results import (
    KEPT,
    MAX_REFUSALS,
    WHAT_TO_DO_ON_HUB,
    ImportResult,
    refused,
    stopped_by_the_system,
    waits_for_room,
)
from models_registry.importing.skipped import why_skipped
from models_registry.importing.source_tree import MAX_FILES
from models_registry.importing.transfer import ImportProgress, TransferMeter, side_by_side
from models_registry.patterns import why_left_out
from trust.formats.identification import check_name, check_size, identify

CONNECTIONS = 4
WINDOW_BYTES = 256 * 1024
_TOLD_BY_HEADER = {".safetensors", ".gguf"}
"""Formats whose header alone tells whether they may enter: looked at before the whole is fetched."""
_SMALL_BYTES = 16 * 1024 * 1024


def fetch_repository(
    source: RepositorySource,
    hub: HubClient,
    staging: Staging,
    *,
    report: Callable[[ImportProgress], None],
    allowance: Allowance | None = None,
) -> ImportResult:
    """Fetch what the staging area lacks, if the `allowance` has room for it. What goes wrong is in the
    result; only bugs raise.
    """
    began = time.monotonic()
    fetch = _Fetch(source, hub, staging, report, allowance)
    try:
        result = fetch.run()
    except FileRefused as refusal:
        result = refused([refusal], what_to_do=WHAT_TO_DO_ON_HUB)
    except StoreUnavailable as error:
        result = ImportResult("interrupted", reason=f"{error} {KEPT}")
    except HubError as error:
        result = _stopped(error, has_begun=staging.has_begun())
    except StoreFull as error:
        result = waits_for_room(error)
    except StorageQuotaExceeded as error:
        result = ImportResult("failed", reason=str(error), cause=error.cause)
    except OSError as error:
        result = stopped_by_the_system(error)
    return replace(result, seconds=round(time.monotonic() - began, 3), commit=fetch.commit)


def _stopped(error: HubError, *, has_begun: bool) -> ImportResult:
    """Return the result of a fetch that the hub stopped: interrupted if the fault may pass and files are
    kept.
    """
    if isinstance(error, AccessRefused) and has_begun:
        reason = f"{error} {KEPT} A sync goes on once its source has a token that opens the repository."
        return ImportResult("interrupted", reason=reason, cause=error.cause)
    waits = isinstance(error, (HubUnreachable, RateLimited))
    if waits and (has_begun or not isinstance(error, NameUnresolved)):
        return ImportResult("interrupted", reason=f"{error} {KEPT}")
    return ImportResult("failed", reason=str(error), cause=error.cause)


@dataclass(frozen=True, slots=True)
class _Listing:
    files: tuple[HubFile, ...]
    skipped: tuple[tuple[str, str], ...]
    refusals: tuple[FileRefused, ...]


def _listed(source: RepositorySource, files: tuple[HubFile, ...]) -> _Listing:
    wanted: list[HubFile] = []
    skipped: list[tuple[str, str]] = []
    refusals: list[FileRefused] = []
    for file in files:
        if why := why_skipped(file.path) or why_left_out(
            file.path, allow=source.allow_patterns, ignore=source.ignore_patterns
        ):
            skipped.append((printable(file.path), why))
            continue
        try:
            check_file_path(file.path)
        except FileRefused as refusal:
            refusals.append(refusal)
            continue
        wanted.append(file)
    if len(wanted) > MAX_FILES:
        refusals.append(FileRefused("(repository)", f"it holds more than {MAX_FILES:,} files"))
    elif not wanted and not refusals:
        refusals.append(FileRefused("(repository)", "it holds no files, or the patterns leave none"))
    if not refusals:
        try:
            check_collisions(file.path for file in wanted)
        except FileRefused as refusal:
            refusals.append(refusal)
    return _Listing(tuple(wanted), tuple(skipped), tuple(refusals))


class _Fetch:
    def __init__(
        self,
        source: RepositorySource,
        hub: HubClient,
        staging: Staging,
        report: Callable[[ImportProgress], None],
        allowance: Allowance | None,
    ) -> None:
        self.commit = ""
        self._allowance = allowance
        self._source = source
        self._hub = hub
        self._staging = staging
        self._report = report
        self._meter = TransferMeter(size_bytes=0, files=0, report=report)
        self._patience = Retry(source.patience_seconds, lambda reason: self._meter.say(reason))

    def run(self) -> ImportResult:
        snapshot = self._patience.keep(
            lambda: self._hub.snapshot(self._source.repo_id, self._source.revision)
        )
        self.commit = snapshot.commit
        listing = _listed(self._source, snapshot.files)
        if listing.refusals:
            return refused(listing.refusals[:MAX_REFUSALS], what_to_do=WHAT_TO_DO_ON_HUB)
        self._meter = TransferMeter(
            size_bytes=sum(file.size for file in listing.files),
            files=len(listing.files),
            report=self._report,
        )
        self._meter.count(always=True)
        # The small ones first: whether they may enter is known soon. Then the largest, so that no
        # connection is left with a long tail.
        files = sorted(listing.files, key=lambda file: (file.size > _SMALL_BYTES, -file.size))
        missing = [file for file in files if not self._held(file)]
        looks = side_by_side(self._look, missing, threads=CONNECTIONS)
        refusals = [refusal for refusal in looks if refusal is not None]
        if refusals:
            return refused(refusals, what_to_do=WHAT_TO_DO_ON_HUB)
        lacking = {_key(file): file.size for file in missing}
        if self._allowance:
            self._allowance.check(sum(lacking.values()))
        self._staging.reserve(lacking)
        # Two names of one content are one file on the way.
        contents = {_key(file): file for file in files}
        names_of = Counter(_key(file) for file in files)

        def fetched(file: HubFile) -> tuple[str, bool]:
            found = self._fetched(file)
            self._meter.count(files=names_of[_key(file)])
            return found

        came = side_by_side(fetched, list(contents.values()), threads=CONNECTIONS)
        sha256s = dict(zip(contents, came, strict=True))
        looked_at = side_by_side(
            lambda file: self._judged(file, sha256s[_key(file)]), files, threads=CONNECTIONS
        )
        refusals = [one for one in looked_at if isinstance(one, FileRefused)]
        if refusals:
            return refused(refusals, what_to_do=WHAT_TO_DO_ON_HUB)
        self._meter.count(always=True)
        copied = [one for one in looked_at if isinstance(one, CopiedFile)]
        fetched_bytes = sum(file.size for key, file in contents.items() if not sha256s[key][1])
        result = judged_together(copied, skipped=listing.skipped, what_to_do=WHAT_TO_DO_ON_HUB)
        return replace(result, copied_bytes=fetched_bytes)

    def _held(self, file: HubFile) -> str | None:
        """The sha256 of a content that the store has already."""
        if not file.sha256:
            return self._staging.hold_blob_id(file.blob_id, file.size)
        return file.sha256 if self._staging.hold(file.sha256, file.size) else None

    def _look(self, file: HubFile) -> FileRefused | None:
        """Judge by its name, and a large file by its header where it lies, before the whole of it comes."""
        content = WindowedContent(file.size, partial(self._read, file), window_bytes=WINDOW_BYTES)
        try:
            check_name(file.path, admits_runnable=self._source.admits_runnable)
            check_size(file.path, file.size)
            if file.size > _SMALL_BYTES and PurePosixPath(file.path).suffix.lower() in _TOLD_BY_HEADER:
                self._patience.keep(lambda: identify(file.path, content))
        except FileRefused as refusal:
            return refusal
        except _CannotLook:
            return None
        return None

    def _read(self, file: HubFile, offset: int, length: int) -> bytes:
        """Bytes of a file where it lies. Raises _CannotLook, HubError."""
        repo_id, data = self._source.repo_id, bytearray()
        with self._hub.opened(repo_id, self.commit, file, offset=offset, length=length) as stream:
            if stream.start != offset:
                raise _CannotLook
            for chunk in stream.chunks:
                data += chunk
                if len(data) >= length:
                    return bytes(data[:length])
        raise HubUnreachable(f"The hub broke off in the middle of {printable(file.path)}.")

    def _fetched(self, file: HubFile) -> tuple[str, bool]:
        """The file's sha256 once the staging area holds it, and whether the store held it before."""
        if held := self._held(file):
            self._meter.find(file.size)
            return held, True
        with self._staging.part(_key(file), file.size) as part:
            for is_last in (False, True):
                verified = _Verified(file)
                for data in part.read_back():
                    verified.add(data)
                self._meter.find(part.done)
                self._fill(file, part, verified)
                if verified.is_genuine:
                    self._staging.complete(part, verified.sha256)
                    return verified.sha256, False
                self._meter.find(-file.size)
                if not is_last:
                    # What an earlier process left may have been damaged; a second time it is the hub.
                    part.restart()
        raise HubMisbehaves(
            f"{printable(file.path)} does not have the content that the hub vouches for "
            f"({_key(file)[:12]}…), in two tries. It was damaged on the way, or the hub is at fault."
        )

    def _fill(self, file: HubFile, part: PartialFile, verified: "_Verified") -> None:
        def pour() -> None:
            before = part.done
            try:
                with self._hub.opened(self._source.repo_id, self.commit, file, offset=before) as stream:
                    if stream.start != before:
                        # The hub cannot continue: all of it comes again.
                        part.restart()
                        verified.reset()
                        self._meter.find(-before)
                    for chunk in stream.chunks:
                        if part.done + len(chunk) > file.size:
                            raise HubMisbehaves(
                                f"The hub sends more of {printable(file.path)} than the "
                                f"{file.size:,} bytes that it listed."
                            )
                        part.append(chunk)
                        verified.add(chunk)
                        self._meter.count(len(chunk))
                        self._meter.say("")
            finally:
                if part.done > before:
                    self._patience.renew()
            if part.done < file.size:
                raise HubUnreachable(f"The hub broke off in the middle of {printable(file.path)}.")

        if part.done < file.size:
            self._patience.keep(pour)

    def _judged(self, file: HubFile, fetched: tuple[str, bool]) -> CopiedFile | FileRefused:
        sha256, was_held = fetched
        entry = ManifestFile(file.path, file.size, sha256)
        copied_bytes = 0 if was_held else file.size
        admits = self._source.admits_runnable
        try:
            return judged(self._staging, entry, copied_bytes=copied_bytes, admits_runnable=admits)
        except FileRefused as refusal:
            return refusal


def _key(file: HubFile) -> str:
    return file.sha256 or file.blob_id


class _Verified:
    """Hashes what comes: the sha256 that the store wants, and what the hub vouches for."""

    def __init__(self, file: HubFile) -> None:
        self._file = file
        self.reset()

    def reset(self) -> None:
        self._sha256 = hashlib.sha256()
        self._sha1 = (
            None if self._file.sha256 else hashlib.sha1(b"blob %d\0" % self._file.size, usedforsecurity=False)
        )

    def add(self, data: bytes) -> None:
        self._sha256.update(data)
        if self._sha1:
            self._sha1.update(data)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def is_genuine(self) -> bool:
        if self._sha1:
            return self._sha1.hexdigest() == self._file.blob_id
        return self.sha256 == self._file.sha256


class _CannotLook(Exception):
    """The hub sends whole files only."""
