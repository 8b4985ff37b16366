"""A file of a staging area that comes in pieces, from several processes one after the other."""

import ctypes
import errno
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PREFIX = ".fetch-"
CHUNK_BYTES = 1024 * 1024
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of fallocate(2): the room is taken, the length stays what has really come."""
_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class LocalPart:
    """See `Part`. The descriptor is closed by the staging area."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.descriptor = os.open(path, _OPEN, 0o600)
        if os.fstat(self.descriptor).st_size > size:
            os.ftruncate(self.descriptor, 0)

    @property
    def done(self) -> int:
        return os.fstat(self.descriptor).st_size

    def reserve(self) -> None:
        """Raises OSError (ENOSPC) when the rest does not fit."""
        if self.size:
            allocate(self.descriptor, self.size)

    def append(self, data: bytes) -> None:
        offset, view = self.done, memoryview(data)
        while view:
            written = os.pwrite(self.descriptor, view, offset)
            offset, view = offset + written, view[written:]

    def read_back(self) -> Iterator[bytes]:
        offset = 0
        while data := os.pread(self.descriptor, CHUNK_BYTES, offset):
            yield data
            offset += len(data)

    def restart(self) -> None:
        os.ftruncate(self.descriptor, 0)
        self.reserve()


def taken_bytes(path: Path) -> int:
    """Return the bytes that a part occupies on disk, its reserved room included."""
    try:
        return path.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0


@cache
def _fallocate() -> Any:
    found = ctypes.CDLL(None, use_errno=True).fallocate
    found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return found


def allocate(descriptor: int, size: int) -> None:
    """Take the room for so many bytes; the length stays what it is. Raises OSError (ENOSPC)."""
    while _fallocate()(descriptor, _KEEP_SIZE, 0, size):
        code = ctypes.get_errno()
        if code == errno.EINTR:
            continue
        if code in _NOT_SUPPORTED:
            # Some network file systems cannot: the check of the free space stands alone there.
            return
        raise OSError(code, os.strerror(code))
