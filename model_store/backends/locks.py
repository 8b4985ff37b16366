"""Locks between processes: `flock` on a file, which falls when its holder dies, however it dies."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model_store.errors import StagingBusy

PATIENCE_SECONDS = 1.0
"""`is_held` takes the lock for a moment to see; whoever does not wait must outlast such a look."""


@contextmanager
def held(path: Path, *, exclusive: bool = True, wait: bool = True, remove: bool = False) -> Iterator[None]:
    """Hold the lock file `path`, making it if needed. Raises StagingBusy when `wait` is false and another
    holds it.

    `remove` deletes the file at the end, while the lock is still held; whoever waited for it notices and
    begins again.
    """
    kind = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise StagingBusy(f"Another process is at work on {path.name}.") from None
            time.sleep(0.02)
            continue
        if _still_there(descriptor, path):
            break
        os.close(descriptor)
    try:
        yield
        if remove:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Return whether a process holds this file exclusively, or holds this directory at all."""
    is_directory = path.is_dir()
    kind = fcntl.LOCK_EX if is_directory else fcntl.LOCK_SH
    try:
        flags = os.O_RDONLY if is_directory else os.O_RDWR
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _still_there(descriptor: int, path: Path) -> bool:
    mine = os.fstat(descriptor)
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (now.st_dev, now.st_ino)
