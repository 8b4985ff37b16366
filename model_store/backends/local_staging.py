"""Ingest files into the local store: hashed while they are copied, copied only when they are new."""

import errno
import operator
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from model_store.backends.base import Counted, Ingested, PartialFile
from model_store.backends.directories import sync_directory
from model_store.backends.ingest import Ingest, Read, read_through, samples
from model_store.backends.local_part import PREFIX, LocalPart, taken_bytes
from model_store.errors import StoreFull
from model_store.reading import Content, OpenFile

SPARE_BYTES = 64 * 1024 * 1024
"""Never filled: the database and the logs of an embedded stack live on the same disk."""

STOP = ".stop"
PART = ".part-"
"""How the names of files begin that are being written."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalStaging(Ingest):
    """See `Staging`. `sizes` is what the store held when the staging area was opened: sha256s by size."""

    def __init__(
        self,
        directory: Path,
        blob_path: Callable[[str], Path],
        sizes: dict[int, set[str]],
        free_bytes: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._blob_path = blob_path
        self._sizes = sizes
        self._free_bytes = free_bytes
        self._lock = threading.Lock()

    def _new_part(self) -> Path:
        return self._directory / f"{PART}{uuid4().hex}"

    def take_over(self, path: Path, sha256: str, size: int, *, counted: Counted) -> bool:
        part = self._new_part()
        # The link comes first: whoever would open the file for writing again looks for it.
        os.link(path, part, follow_symlinks=False)
        try:
            descriptor = os.open(part, _READ)
            try:
                if os.fstat(descriptor).st_size != size:
                    return False
                if read_through(descriptor, size, counted=counted) != sha256:
                    counted(-size)
                    return False
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            part.replace(self._directory / sha256)
        finally:
            part.unlink(missing_ok=True)
        return True

    def reserve(self, parts: Mapping[str, int]) -> None:
        missing = {key: size - taken_bytes(self._directory / (PREFIX + key)) for key, size in parts.items()}
        needed = sum(max(0, size) for size in missing.values())
        self.check_space(needed)
        for key, size in parts.items():
            with self.part(key, size) as part:
                part.reserve()

    def has_begun(self) -> bool:
        with os.scandir(self._directory) as entries:
            return any(entry.name.startswith(PREFIX) or not entry.name.startswith(".") for entry in entries)

    @contextmanager
    def part(self, key: str, size: int) -> Iterator[LocalPart]:
        part = LocalPart(self._directory / (PREFIX + key), size)
        try:
            yield part
        except OSError as error:
            self._raise_if_full(error, size)
            raise
        finally:
            os.close(part.descriptor)

    def complete(self, part: PartialFile, sha256: str) -> None:
        assert isinstance(part, LocalPart)  # noqa: S101
        os.fchmod(part.descriptor, 0o444)
        os.fsync(part.descriptor)
        part.path.replace(self._directory / sha256)
        with self._lock:
            self._sizes.setdefault(part.size, set()).add(sha256)

    @contextmanager
    def opened(self, sha256: str) -> Iterator[Content]:
        descriptor = os.open(self._directory / sha256, _READ)
        try:
            yield OpenFile(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def is_unwanted(self) -> bool:
        return (self._directory / STOP).exists()

    def leave(self) -> None:
        """The lock falls with the process."""

    def write_note(self, name: str, data: bytes) -> None:
        part = self._new_part()
        descriptor = os.open(part, _CREATE, 0o600)
        try:
            _write_all(descriptor, memoryview(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(self._directory / f".note-{name}")
        sync_directory(self._directory)

    def _of_size(self, size: int) -> list[str]:
        with self._lock:
            return sorted(self._sizes.get(size, ()))

    def _agrees(self, sha256: str, size: int, wanted: list[bytes]) -> bool:
        paths = (self._directory / sha256, self._blob_path(sha256))
        return any(_is_like(path, size, wanted) for path in paths)

    def hold(self, sha256: str, size: int) -> bool:
        """Hold the content by a link of our own; False when the store does not have it (whole) after all."""
        held = self._directory / sha256
        with suppress(OSError):
            if held.stat().st_size == size:
                return True
        with suppress(OSError):
            if self._blob_path(sha256).stat().st_size == size:
                part = self._new_part()
                os.link(self._blob_path(sha256), part)
                part.replace(held)
                return True
        return False

    def _take_new(self, size: int, read: Read) -> Ingested:
        self.check_space(size)
        part = self._new_part()
        target = os.open(part, _CREATE, 0o600)
        try:
            try:
                sha256 = read(partial(_write_all, target))
                os.fchmod(target, 0o444)
                os.fsync(target)
            finally:
                os.close(target)
            if self.hold(sha256, size):
                return Ingested(sha256, size, copied_bytes=0)
            part.replace(self._directory / sha256)
        except OSError as error:
            part.unlink(missing_ok=True)
            self._raise_if_full(error, size)
            raise
        finally:
            part.unlink(missing_ok=True)
        with self._lock:
            self._sizes.setdefault(size, set()).add(sha256)
        return Ingested(sha256, size, copied_bytes=size)

    def _raise_if_full(self, error: OSError, size: int) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(needed_bytes=size + SPARE_BYTES, free_bytes=self._free_bytes()) from error

    def check_space(self, new_bytes: int) -> None:
        free = self._free_bytes()
        if free < new_bytes + SPARE_BYTES:
            raise StoreFull(needed_bytes=new_bytes + SPARE_BYTES, free_bytes=free)


def _is_like(path: Path, size: int, wanted: list[bytes]) -> bool:
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return False
    try:
        content = OpenFile(descriptor, os.fstat(descriptor).st_size)
        found = samples(content.size, content.read_at)
        return content.size == size and all(map(operator.eq, found, wanted))
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
