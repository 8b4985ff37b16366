"""What a directory holds: each file with its sha256, read by several threads, remembered between pushes."""

import fnmatch
import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from slipway.exits import CommandFailed, Exit

CHUNK_BYTES = 1024 * 1024
REMEMBERED_FROM_BYTES = 1024 * 1024
"""Smaller files are read faster than they are looked up."""
LEFT_OUT = frozenset({".git", ".cache", ".huggingface", ".DS_Store"})
"""Histories and caches, which the server leaves out of what it imports, too."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A regular file: its path below the directory with '/', where it lies, and what it was when listed."""

    path: str
    location: Path
    size: int
    device: int
    inode: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class HashedFile:
    file: LocalFile
    sha256: str

    def as_json(self) -> dict[str, str | int]:
        return {"path": self.file.path, "size": self.file.size, "sha256": self.sha256}


def listed(directory: Path, *, ignore: Sequence[str]) -> list[LocalFile]:
    """The files below `directory` by path, but for what matches `ignore`. Raises CommandFailed for links and
    whatever else is no file: what they mean elsewhere nobody knows.
    """
    if not directory.is_dir():
        raise CommandFailed(f"{directory} is not a directory.", Exit.USAGE)
    found = sorted(
        _walk(directory, "", ignore), key=lambda file: file.path.encode("utf-8", "surrogateescape")
    )
    if not found:
        raise CommandFailed(f"{directory} contains no files to push.", Exit.USAGE)
    return found


def _walk(directory: Path, prefix: str, ignore: Sequence[str]) -> Iterator[LocalFile]:
    with os.scandir(directory) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.name in LEFT_OUT or any(fnmatch.fnmatchcase(path, pattern) for pattern in ignore):
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(Path(entry.path), f"{path}/", ignore)
            elif stat.S_ISREG(status.st_mode):
                yield LocalFile(
                    path,
                    Path(entry.path),
                    status.st_size,
                    status.st_dev,
                    status.st_ino,
                    status.st_mtime_ns,
                )
            else:
                what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
                raise CommandFailed(
                    f"{path} is {what}. Push a copy without it (`cp -rL`, or `hf download --local-dir`), "
                    "or exclude it with --ignore.",
                    Exit.FAILED,
                )


def hashed(
    files: Sequence[LocalFile], memory: "HashMemory", *, threads: int, counted: Callable[[int], None]
) -> list[HashedFile]:
    """The files with their sha256s; `counted` hears of bytes as they are read. Raises CommandFailed."""

    def one(file: LocalFile) -> HashedFile:
        known = memory.recalled(file)
        if known:
            counted(file.size)
            return HashedFile(file, known)
        found = _sha256(file, counted)
        memory.remember(file, found)
        return HashedFile(file, found)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, files))


def _sha256(file: LocalFile, counted: Callable[[int], None]) -> str:
    digest, size = hashlib.sha256(), 0
    try:
        with file.location.open("rb") as content:
            while chunk := content.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                counted(len(chunk))
    except OSError as error:
        raise CommandFailed(f"{file.location} cannot be read: {error.strerror}.", Exit.USAGE) from None
    if size != file.size:
        raise CommandFailed(
            f"{file.path} changed while it was read. Push again when no process writes to it.", Exit.FAILED
        )
    return digest.hexdigest()


class HashMemory:
    """A database of SHA-256s of unchanged files, in the user's cache directory.

    Where there is none to write to, nothing is remembered.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "hashes.sqlite3"
        with suppress(OSError, sqlite3.Error):
            directory.mkdir(parents=True, exist_ok=True)
            with closing(self._open()) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS hashes (location TEXT PRIMARY KEY, device INTEGER, "
                    "inode INTEGER, size INTEGER, modified_ns INTEGER, sha256 TEXT)"
                )

    @classmethod
    def of_user(cls) -> "HashMemory":
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(home) / "slipway")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=5)

    def recalled(self, file: LocalFile) -> str:
        """Empty: not known, or the file is another one by now."""
        if file.size < REMEMBERED_FROM_BYTES:
            return ""
        query = (
            "SELECT sha256 FROM hashes WHERE location = ? AND device = ? AND inode = ? AND size = ? "
            "AND modified_ns = ?"
        )
        given = (str(file.location.absolute()), file.device, file.inode, file.size, file.modified_ns)
        with suppress(sqlite3.Error), closing(self._open()) as database:
            row = database.execute(query, given).fetchone()
            return str(row[0]) if row else ""
        return ""

    def remember(self, file: LocalFile, sha256: str) -> None:
        if file.size < REMEMBERED_FROM_BYTES:
            return
        location = str(file.location.absolute())
        with suppress(sqlite3.Error), closing(self._open()) as database, database:
            database.execute(
                "INSERT OR REPLACE INTO hashes VALUES (?, ?, ?, ?, ?, ?)",
                (location, file.device, file.inode, file.size, file.modified_ns, sha256),
            )

    def forget(self, file: LocalFile) -> None:
        with suppress(sqlite3.Error), closing(self._open()) as database, database:
            database.execute("DELETE FROM hashes WHERE location = ?", (str(file.location.absolute()),))
