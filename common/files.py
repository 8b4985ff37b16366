"""Files that are replaced whole or not at all, and locks between processes that fall with their holder."""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEFTOVER = ".tmp"


class FileBusy(Exception):
    """Somebody else has held the lock for all the time that we could wait."""


def replace(path: Path, content: bytes, *, is_secret: bool = False) -> None:
    """Put the content in place of the file by one rename, after it has reached the disk.

    A secret is readable by its owner alone, from its first byte on. Raises OSError, with the old file in
    place, when it cannot be done.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{LEFTOVER}")
    mode = 0o600 if is_secret else 0o666
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def sweep_leftovers(root: Path, *, older_than_seconds: float) -> None:
    """Remove files that a writer was killed over."""
    before = time.time() - older_than_seconds
    for leftover in root.rglob(f".*{LEFTOVER}"):
        try:
            if leftover.stat().st_mtime < before:
                leftover.unlink()
        except FileNotFoundError:
            continue


@contextmanager
def held(path: Path, *, within_seconds: float) -> Iterator[None]:
    """Hold the lock of this file, made if needed, against every other thread and process. Raises FileBusy."""
    deadline = time.monotonic() + within_seconds
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise FileBusy(f"Another process has held {path} for {within_seconds:g} s.") from None
                time.sleep(0.005)
        yield
    finally:
        os.close(file)
