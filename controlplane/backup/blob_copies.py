"""Files of models from the store into a directory of backups, and back, each compared with its name."""

import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from controlplane.backup.errors import BackupError
from controlplane.backup.layout import blob_place
from model_store.backends.base import Staging
from model_store.reading import Content

AT_ONCE = 4
CHUNK_BYTES = 4 * 1024 * 1024
_PART = ".part-"


def copy_out(
    staging: Staging, blobs: Mapping[str, int], root: Path, *, copied: Callable[[int], None]
) -> list[str]:
    """Copy those that `root` lacks out of a staging area that holds them all. `copied` gets bytes of each.

    Returns the sha256s of those whose content is another by now. Raises BackupError, OSError.
    """
    damaged: list[str] = []

    def one(sha256: str) -> None:
        target = root / blob_place(sha256)
        with suppress(FileNotFoundError):
            if target.stat().st_size == blobs[sha256]:
                return
        with staging.opened(sha256) as content:
            if _copy(content, target) != sha256:
                damaged.append(sha256)
            else:
                copied(content.size)

    for stale in (root / "blobs").glob(f"*/{_PART}*"):
        stale.unlink()
    _each(one, blobs)
    return sorted(damaged)


def copy_in(staging: Staging, blobs: Mapping[str, Path], root: Path) -> int:
    """Into a staging area; how many bytes the store did not have. Raises BackupError, StoreFull."""
    copied: list[int] = []

    def one(sha256: str) -> None:
        source = root / blobs[sha256]
        try:
            size = source.stat().st_size
            if staging.hold(sha256, size):
                return
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise BackupError(f"{source} cannot be read: {error.strerror}.") from None
        try:
            taken = staging.take(descriptor, size, counted=lambda _: None)
        finally:
            os.close(descriptor)
        if taken.sha256 != sha256:
            raise BackupError(f"{source} is damaged: its content has the sha256 {taken.sha256}.")
        copied.append(taken.copied_bytes)

    _each(one, blobs)
    return sum(copied)


def _each(do: Callable[[str], None], blobs: Mapping[str, object]) -> None:
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="blobs") as pool:
        asked = [pool.submit(do, sha256) for sha256 in sorted(blobs)]
        try:
            for one in asked:
                one.result()
        finally:
            for one in asked:
                one.cancel()


def _copy(content: Content, target: Path) -> str:
    """The sha256 of what was read; there is a file of that name when it is the target's."""
    target.parent.mkdir(mode=0o700, exist_ok=True)
    part = target.with_name(f"{_PART}{uuid4().hex}")
    digest, offset = hashlib.sha256(), 0
    try:
        with part.open("xb") as file:
            while data := content.read_at(offset, CHUNK_BYTES):
                digest.update(data)
                file.write(data)
                offset += len(data)
            file.flush()
            os.fsync(file.fileno())
        found = digest.hexdigest()
        if found == target.name:
            part.chmod(0o400)
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return found
