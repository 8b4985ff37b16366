"""An upload buffer in a directory beside the store.

    <directory>/manifest         the files that it is to be, and which contents need not come, as JSON
    <directory>/<sha256>.part    a content that is not whole yet, its room taken
    <directory>/<sha256>.marks   a byte for each of its parts: 1 when that part has come
    <directory>/<sha256>         a content all of whose parts have come; nobody writes to it any more

A part is marked after its bytes are written, so a process that dies leaves parts that come again, and no
marks without bytes. Whoever writes holds a shared lock on the content and looks then whether it still is
open; who closes it holds the lock alone: what is whole cannot be changed by a request that was late.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from model_store.backends.base import Counted, Staging
from model_store.backends.local_part import allocate
from model_store.backends.local_staging import SPARE_BYTES
from model_store.errors import StoreFull
from model_store.file_manifest import ManifestFile
from model_store.upload_buffer import (
    AnnouncedContent,
    RequestBody,
    UploadBuffer,
    check_body,
    differs,
    gone,
    too_long,
)

CHUNK_BYTES = 1024 * 1024
CHECKED_AT_ONCE_BYTES = 1024**3
"""Up to this size a content is compared with its name when its last part comes; larger ones when the version
is made."""

_MANIFEST, _PART, _MARKS = "manifest", ".part", ".marks"


class LocalUploadBuffer(UploadBuffer):
    """See `UploadBuffer`."""

    def __init__(self, directory: Path, *, part_bytes: int) -> None:
        super().__init__(part_bytes=part_bytes)
        self.directory = directory

    def begin(self, files: Iterable[ManifestFile], contents: Collection[AnnouncedContent]) -> None:
        self.directory.mkdir(parents=True)
        awaited = [content for content in contents if not content.is_known]
        try:
            needed = sum(content.size for content in awaited) + SPARE_BYTES
            if (free := shutil.disk_usage(self.directory).free) < needed:
                raise StoreFull(needed_bytes=needed, free_bytes=free)
            for content in awaited:
                self.open_anew(content)
            listed = [(file.path, file.size, file.sha256) for file in files]
            known = sorted(content.sha256 for content in contents if content.is_known)
            (self.directory / _MANIFEST).write_text(json.dumps({"files": listed, "known": known}))
        except OSError as error:
            self.discard()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(needed_bytes=needed, free_bytes=0) from None
            raise
        except StoreFull:
            self.discard()
            raise

    def manifest(self) -> tuple[list[ManifestFile], frozenset[str]]:
        told = json.loads((self.directory / _MANIFEST).read_text())
        return [ManifestFile(*columns) for columns in told["files"]], frozenset(told["known"])

    def exists(self) -> bool:
        return self.directory.exists()

    def path(self, sha256: str) -> Path:
        return self.directory / sha256

    def is_missing(self, content: AnnouncedContent) -> bool:
        return self._path(content.sha256, _PART).exists()

    def is_awaited(self, content: AnnouncedContent) -> bool:
        return self.is_missing(content) or self.path(content.sha256).exists()

    def received(self, content: AnnouncedContent) -> list[range]:
        if not self.is_missing(content):
            return [range(content.size)]
        came = (index for index, mark in enumerate(self._marks(content.sha256)) if mark)
        return self.ranges_of(came, content.size)

    def missing(self, contents: Collection[AnnouncedContent]) -> dict[str, list[range]]:
        names: set[str] = set()
        with suppress(FileNotFoundError):
            names = {entry.name for entry in os.scandir(self.directory)}
        waited_for = [one for one in contents if f"{one.sha256}{_PART}" in names]
        return {one.sha256: self.received(one) for one in waited_for if not self.close(one.sha256)}

    def write(
        self, content: AnnouncedContent, *, parts: range, body: RequestBody, digest: bytes | None = None
    ) -> bool:
        sha256, size, is_new = content.sha256, content.size, False
        try:
            with self._locked(self._path(sha256, _PART), fcntl.LOCK_SH, flags=os.O_WRONLY) as descriptor:
                if descriptor is not None:
                    marks = self._marks(sha256)
                    new = [index for index in parts if not marks[index]]
                    if new:
                        # What has come is not written again: this body may turn out to be damaged.
                        wanted = [self.part_range(index, size) for index in new]
                        self._pour(descriptor, self.bytes_of(parts, size), wanted, body, digest)
                        self._mark(sha256, new)
                        is_new = True
            if self.close(sha256) and size <= CHECKED_AT_ONCE_BYTES:
                self.check(content)
        except FileNotFoundError:
            raise gone() from None
        if not is_new and not self.exists():
            raise gone()
        return is_new

    @staticmethod
    def _pour(
        descriptor: int, told: range, wanted: Iterable[range], body: RequestBody, digest: bytes | None
    ) -> None:
        """Write the `wanted` bytes of a body that has those that it is `told` to have."""
        found, offset, left = hashlib.sha256(), told.start, list(wanted)
        while chunk := body.read(CHUNK_BYTES):
            if offset + len(chunk) > told.stop:
                raise too_long(told)
            found.update(chunk)
            came = range(offset, offset + len(chunk))
            offset = came.stop
            while left and left[0].start < came.stop:
                start, stop = max(left[0].start, came.start), min(left[0].stop, came.stop)
                _write_at(descriptor, memoryview(chunk)[start - came.start : stop - came.start], start)
                if left[0].stop > came.stop:
                    break
                left.pop(0)
        check_body(offset - told.start, told, found=found.digest(), digest=digest)

    def close(self, sha256: str) -> bool:
        """Let nobody write to a content any more once all its parts have come; False when it was not open,
        or is not whole.
        """
        with self._locked(self._path(sha256, _PART), fcntl.LOCK_EX) as descriptor:
            if descriptor is None or 0 in self._marks(sha256):
                return False
            os.fchmod(descriptor, 0o444)
            self._path(sha256, _PART).rename(self.path(sha256))
            return True

    def check(self, content: AnnouncedContent) -> None:
        """Compare a whole content with its name; one that differs begins anew. Raises ContentDiffers."""
        found = hashlib.sha256()
        with suppress(FileNotFoundError), self.path(content.sha256).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                found.update(chunk)
            if found.hexdigest() != content.sha256:
                self.restart(content)
                raise differs(content.sha256, found.hexdigest())

    def restart(self, content: AnnouncedContent) -> None:
        """Restart a content, unless another process has a link to it."""
        with self._locked(self.path(content.sha256), fcntl.LOCK_EX) as descriptor:
            if descriptor is not None and os.fstat(descriptor).st_nlink == 1:
                marks = self._path(content.sha256, _MARKS)
                marks.write_bytes(bytes(marks.stat().st_size))
                self.path(content.sha256).rename(self._path(content.sha256, _PART))

    def open_anew(self, content: AnnouncedContent) -> None:
        if not content.size:
            self.path(content.sha256).touch()
            return
        self._path(content.sha256, _MARKS).write_bytes(bytes(self.part_count(content.size)))
        part = self._path(content.sha256, _PART)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            allocate(descriptor, content.size)
        finally:
            os.close(descriptor)

    def hand_over(self, content: AnnouncedContent, staging: Staging, *, counted: Counted) -> bool:
        return staging.take_over(self.path(content.sha256), content.sha256, content.size, counted=counted)

    def discard(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, sha256: str, suffix: str) -> Path:
        return self.directory / f"{sha256}{suffix}"

    def _marks(self, sha256: str) -> bytes:
        return self._path(sha256, _MARKS).read_bytes()

    def _mark(self, sha256: str, parts: Iterable[int]) -> None:
        descriptor = os.open(self._path(sha256, _MARKS), os.O_WRONLY | os.O_CLOEXEC)
        try:
            for index in parts:
                os.pwrite(descriptor, b"\x01", index)
        finally:
            os.close(descriptor)

    @staticmethod
    @contextmanager
    def _locked(path: Path, kind: int, *, flags: int = os.O_RDONLY) -> Iterator[int | None]:
        """The open file once its lock is held; None when there is none of that name, or not any more."""
        try:
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            fcntl.flock(descriptor, kind)
            try:
                now = path.stat()
            except FileNotFoundError:
                yield None
                return
            mine = os.fstat(descriptor)
            yield descriptor if (mine.st_dev, mine.st_ino) == (now.st_dev, now.st_ino) else None
        finally:
            os.close(descriptor)


def _write_at(descriptor: int, view: memoryview, offset: int) -> None:
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset, view = offset + written, view[written:]


def orphans(store: str, *, known: Collection[str], older_than: timedelta) -> Iterator[UploadBuffer]:
    """See `forget_buffers`."""
    before = time.time() - older_than.total_seconds()
    with suppress(FileNotFoundError):
        for path in (Path(store) / "uploads").iterdir():
            if path.name not in known and path.stat().st_mtime < before:
                yield LocalUploadBuffer(path, part_bytes=1)
