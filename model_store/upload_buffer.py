"""Where an upload's contents come together from their parts, in any order, from several requests at once.

    <directory>/manifest         the files that it is to be, and which contents need not come, as JSON
    <directory>/<sha256>.part    a content that is not whole yet, its room taken
    <directory>/<sha256>.marks   a byte for each of its parts: 1 when that part has come
    <directory>/<sha256>         a content all of whose parts have come; nobody writes to it any more

A part is marked after its bytes are written, so a process that dies leaves parts that come again, and no
marks without bytes. Whoever writes holds a shared lock on the content and looks then whether it still is
open; who closes it holds the lock alone: what is whole cannot be changed by a request that was late. No
Django in here.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from model_store.backends.local_part import allocate
from model_store.backends.local_staging import SPARE_BYTES
from model_store.errors import ContentDiffers, PartRefused, StoreFull, UnknownUpload
from model_store.file_manifest import ManifestFile

CHUNK_BYTES = 1024 * 1024
CHECKED_AT_ONCE_BYTES = 1024**3
"""Up to this size a content is compared with its name when its last part comes; larger ones when the version
is made."""

_MANIFEST, _PART, _MARKS = "manifest", ".part", ".marks"


class Body(Protocol):
    """What a request brings."""

    def read(self, size: int, /) -> bytes: ...


class UploadBuffer:
    """The upload buffer of one upload. `part_bytes` is the size of all parts but the last of each content."""

    def __init__(self, directory: Path, *, part_bytes: int) -> None:
        self.directory = directory
        self._part_bytes = part_bytes

    def begin(self, files: Iterable[ManifestFile], missing: Mapping[str, int]) -> None:
        """Take the room for the `missing` contents (bytes by sha256). Raises StoreFull, with nothing left."""
        self.directory.mkdir(parents=True)
        try:
            needed = sum(missing.values()) + SPARE_BYTES
            if (free := shutil.disk_usage(self.directory).free) < needed:
                raise StoreFull(needed_bytes=needed, free_bytes=free)
            for sha256, size in missing.items():
                self.open_anew(sha256, size)
            listed = [(file.path, file.size, file.sha256) for file in files]
            known = sorted({sha256 for _, _, sha256 in listed} - missing.keys())
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
        """The files, and the sha256s of the contents that need not come. Raises FileNotFoundError."""
        told = json.loads((self.directory / _MANIFEST).read_text())
        return [ManifestFile(*columns) for columns in told["files"]], frozenset(told["known"])

    def part_count(self, size: int) -> int:
        return -(-size // self._part_bytes)

    def part_range(self, index: int, size: int) -> range:
        """The bytes of a part of a content of that size."""
        return range(index * self._part_bytes, min((index + 1) * self._part_bytes, size))

    def _bytes_of(self, parts: range, size: int) -> range:
        return range(self.part_range(parts[0], size).start, self.part_range(parts[-1], size).stop)

    def path(self, sha256: str) -> Path:
        return self.directory / sha256

    def is_missing(self, sha256: str) -> bool:
        """Whether parts of it are still waited for."""
        return self._path(sha256, _PART).exists()

    def missing(self) -> set[str]:
        with suppress(FileNotFoundError):
            names = [entry.name for entry in os.scandir(self.directory)]
            return {name.removesuffix(_PART) for name in names if name.endswith(_PART)}
        return set()

    def received(self, sha256: str, size: int) -> list[range]:
        """The bytes of a content that have come, as far as its parts are whole: neighbours together."""
        if not self.is_missing(sha256):
            return [range(size)]
        found: list[range] = []
        for index, mark in enumerate(self._marks(sha256)):
            if mark:
                part = self.part_range(index, size)
                if found and found[-1].stop == part.start:
                    part = range(found.pop().start, part.stop)
                found.append(part)
        return found

    def received_bytes(self, contents: Mapping[str, int]) -> int:
        """How much of these (bytes by sha256) need not come any more."""
        missing = self.missing()
        done = sum(size for sha256, size in contents.items() if sha256 not in missing)
        return done + sum(len(part) for one in missing for part in self.received(one, contents[one]))

    def write(self, sha256: str, size: int, *, parts: range, body: Body, digest: bytes | None = None) -> bool:
        """Take parts that follow one another from `body`; False when all of them had come before, or the
        content need not come.

        `parts` are their indexes, `digest` is the sha256 of the body, where the client says it. The last part
        that was missing closes the content. Raises PartRefused, ContentDiffers, UnknownUpload when the upload
        buffer is gone, OSError.
        """
        is_new = False
        try:
            with self._locked(self._path(sha256, _PART), fcntl.LOCK_SH, flags=os.O_WRONLY) as descriptor:
                if descriptor is not None:
                    marks = self._marks(sha256)
                    new = [index for index in parts if not marks[index]]
                    if new:
                        # What has come is not written again: this body may turn out to be damaged.
                        wanted = [self.part_range(index, size) for index in new]
                        self._pour(descriptor, self._bytes_of(parts, size), wanted, body, digest)
                        self._mark(sha256, new)
                        is_new = True
            if self.close(sha256) and size <= CHECKED_AT_ONCE_BYTES:
                self.check(sha256)
        except FileNotFoundError:
            raise self._gone() from None
        if not is_new and not self.directory.exists():
            raise self._gone()
        return is_new

    @staticmethod
    def _gone() -> UnknownUpload:
        return UnknownUpload("What has come of this upload is gone. Begin another one.")

    @staticmethod
    def _pour(
        descriptor: int, told: range, wanted: Iterable[range], body: Body, digest: bytes | None
    ) -> None:
        """Write the `wanted` bytes of a body that has those that it is `told` to have."""
        found, offset, left = hashlib.sha256(), told.start, list(wanted)
        while chunk := body.read(CHUNK_BYTES):
            if offset + len(chunk) > told.stop:
                raise PartRefused(f"The body is longer than the {len(told):,} bytes of its range.")
            found.update(chunk)
            came = range(offset, offset + len(chunk))
            offset = came.stop
            while left and left[0].start < came.stop:
                start, stop = max(left[0].start, came.start), min(left[0].stop, came.stop)
                _write_at(descriptor, memoryview(chunk)[start - came.start : stop - came.start], start)
                if left[0].stop > came.stop:
                    break
                left.pop(0)
        if offset != told.stop:
            count = offset - told.start
            raise PartRefused(f"The body has {count:,} bytes, its range has {len(told):,}. Send it again.")
        if digest is not None and found.digest() != digest:
            raise PartRefused("The body is not what its Content-Digest says: it was damaged on the way.")

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

    def check(self, sha256: str) -> None:
        """Compare a whole content with its name; one that differs begins anew. Raises ContentDiffers."""
        found = hashlib.sha256()
        with suppress(FileNotFoundError), self.path(sha256).open("rb") as content:
            while chunk := content.read(CHUNK_BYTES):
                found.update(chunk)
            if found.hexdigest() != sha256:
                self.restart(sha256)
                raise ContentDiffers(
                    f"What came as {sha256[:12]}… has the sha256 {found.hexdigest()[:12]}…. It was announced "
                    "wrong, or its file changed meanwhile; all of it has to come again."
                )

    def restart(self, sha256: str) -> None:
        """Open a whole content again, with none of its parts, unless somebody has a link to it."""
        with self._locked(self.path(sha256), fcntl.LOCK_EX) as descriptor:
            if descriptor is not None and os.fstat(descriptor).st_nlink == 1:
                marks = self._path(sha256, _MARKS)
                marks.write_bytes(bytes(marks.stat().st_size))
                self.path(sha256).rename(self._path(sha256, _PART))

    def open_anew(self, sha256: str, size: int) -> None:
        """Wait for all parts of a content. Raises OSError when there is no room."""
        if not size:
            self.path(sha256).touch()
            return
        self._path(sha256, _MARKS).write_bytes(bytes(self.part_count(size)))
        descriptor = os.open(self._path(sha256, _PART), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            allocate(descriptor, size)
        finally:
            os.close(descriptor)

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
