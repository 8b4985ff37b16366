"""The store in a directory: blobs by their sha256, hard links everywhere else.

    blobs/sha256/ab/<sha256>     read-only, complete, never changed
    incoming/<key>/              one import's private files: held ones by sha256, `.part-*` while copied
    versions/<digest>/...        a version under its own file names, hard links into blobs
    quarantine/<sha256>.<inode>  blobs that were found damaged, for people to look at
    locks/

A file becomes visible by one rename or link of a complete, synced file, so a crash leaves a `.part-*`, an
staging area or a `.making-*`, each of which the next process on its lock removes. A staging area holds a link
of its own to every blob that it needs: deleting blobs can never take away what an import has already seen.
"""

import errno
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from model_store.backends import locks
from model_store.backends.base import PARTS, BlobFlaw, Counted, Reclaimed, StoreDescription
from model_store.backends.directories import VersionDirectories, size_of, sync_directory
from model_store.backends.ingest import CHUNK_BYTES
from model_store.backends.local_staging import PART, STOP, LocalStaging
from model_store.errors import BlobMissing
from model_store.file_manifest import FileManifest
from model_store.reading import Content, OpenFile

FILES_AT_ONCE = 4
AT_ONCE_BYTES = 256 * 1024 * 1024
"""Of a version that is read in a moment; a larger one takes a process of its own."""


class LocalStore:
    """See `Store`. `root` is made when first used; it must be on one file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._blobs = root / "blobs" / "sha256"
        self._incoming = root / "incoming"
        self._versions = root / "versions"
        self._quarantine = root / "quarantine"
        self._locks = root / "locks"
        self._directories = VersionDirectories(
            self._versions, self._locks / "versions", self.blob_path, heeds_writes=True
        )
        self._made = threading.Event()

    def _make(self) -> None:
        if not self._made.is_set():
            for directory in (self._blobs, self._incoming, self._versions, self._locks):
                directory.mkdir(parents=True, exist_ok=True, mode=0o755)
            self._made.set()

    @property
    def address(self) -> str:
        return str(self.root)

    def blob_path(self, sha256: str) -> Path:
        return self._blobs / sha256[:2] / sha256

    def _intake_lock(self, key: str) -> Path:
        return self._locks / f"incoming-{key}"

    @property
    def _blobs_lock(self) -> Path:
        return self._locks / "blobs"

    @contextmanager
    def staging(self, key: str) -> Iterator[LocalStaging]:
        self._make()
        with locks.held(self._intake_lock(key), wait=False):
            directory = self._incoming / key
            directory.mkdir(exist_ok=True)
            for left_over in (*directory.glob(PART + "*"), directory / STOP):
                left_over.unlink(missing_ok=True)
            yield LocalStaging(directory, self.blob_path, self._sizes(directory), self.free_bytes)

    def _sizes(self, staging: Path) -> dict[int, set[str]]:
        """Return sha256s by size of all blobs and of the staging area: 100,000 entries take a second."""
        found: dict[int, set[str]] = {}
        directories = [staging, *(Path(entry.path) for entry in os.scandir(self._blobs))]
        for directory in directories:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if not entry.name.startswith("."):
                        found.setdefault(entry.stat(follow_symlinks=False).st_size, set()).add(entry.name)
        return found

    def is_busy(self, key: str) -> bool:
        return locks.is_held(self._intake_lock(key))

    def ask_to_stop(self, key: str) -> None:
        with suppress(FileNotFoundError):
            (self._incoming / key / STOP).touch()

    def read_note(self, key: str, name: str) -> bytes | None:
        try:
            return (self._incoming / key / f".note-{name}").read_bytes()
        except FileNotFoundError:
            return None

    def staging_keys(self) -> list[str]:
        self._make()
        return sorted(
            entry.name for entry in os.scandir(self._incoming) if entry.is_dir(follow_symlinks=False)
        )

    def held(self, key: str) -> dict[str, int]:
        try:
            with os.scandir(self._incoming / key) as entries:
                return {
                    entry.name: entry.stat(follow_symlinks=False).st_size
                    for entry in entries
                    if not entry.name.startswith(".")
                }
        except FileNotFoundError:
            return {}

    def publish(self, key: str, manifest: FileManifest) -> None:
        self._make()
        sizes = {file.sha256: file.size for file in manifest.files}
        touched = {self._blobs}
        with locks.held(self._blobs_lock, exclusive=False):
            for sha256, size in sizes.items():
                target = self.blob_path(sha256)
                if size_of(target) == size:
                    continue
                held = self._incoming / key / sha256
                if size_of(held) != size or self._is_quarantined(sha256, held):
                    # A retry is not to find it again.
                    held.unlink(missing_ok=True)
                    raise BlobMissing(f"The import no longer holds the content {sha256[:12]}…; retry it.")
                target.parent.mkdir(exist_ok=True)
                # One of another size is damaged: the whole one takes its place.
                target.unlink(missing_ok=True)
                with suppress(FileExistsError):
                    os.link(held, target)
                touched.add(target.parent)
            for directory in touched:
                sync_directory(directory)

    def discard(self, key: str, *, is_referenced: Callable[[Collection[str]], set[str]]) -> Reclaimed:
        self._make()
        directory = self._incoming / key
        with locks.held(self._intake_lock(key), wait=False, remove=True):
            if not directory.is_dir():
                return Reclaimed(0, 0)
            names = [entry.name for entry in os.scandir(directory) if not entry.name.startswith(".")]
            # Blobs first: after a crash in between, the staging area still tells which ones to look at.
            reclaimed = self.reclaim(names, is_referenced=is_referenced)
            shutil.rmtree(directory)
            return reclaimed

    def reclaim(
        self, blobs: Iterable[str], *, is_referenced: Callable[[Collection[str]], set[str]]
    ) -> Reclaimed:
        self._make()
        wanted = {sha256 for sha256 in blobs if self.blob_path(sha256).exists()}
        count = freed = 0
        if wanted:
            with locks.held(self._blobs_lock):
                for sha256 in wanted - is_referenced(wanted):
                    path = self.blob_path(sha256)
                    size = size_of(path)
                    if size is not None:
                        path.unlink()
                        count, freed = count + 1, freed + size
        return Reclaimed(count, freed)

    def quarantine(self, sha256: str, *, mark: str) -> None:
        self._make()
        blob, aside = self.blob_path(sha256), self._aside(sha256, mark)
        with locks.held(self._blobs_lock), suppress(FileNotFoundError):
            if _mark(blob.stat(follow_symlinks=False)) != mark:
                return
            aside.parent.mkdir(exist_ok=True)
            if aside.exists():
                # A rename between two names of one file does nothing.
                blob.unlink()
            else:
                blob.rename(aside)
            sync_directory(blob.parent)
            sync_directory(aside.parent)

    def clear_quarantine(self, *, older_than: timedelta, keep: Collection[str]) -> Reclaimed:
        self._make()
        before = time.time() - older_than.total_seconds()
        count = freed = 0
        with locks.held(self._blobs_lock):
            for path in self._quarantine.glob("*"):
                status = path.stat(follow_symlinks=False)
                # As long as there is another link, the name here tells that it leads to a damaged file.
                is_alone = status.st_nlink == 1
                if is_alone and status.st_ctime <= before and path.stem not in keep:
                    path.unlink()
                    count, freed = count + 1, freed + status.st_size
        return Reclaimed(count, freed)

    def _aside(self, sha256: str, mark: str) -> Path:
        return self._quarantine / f"{sha256}.{mark}"

    def _is_quarantined(self, sha256: str, file: Path) -> bool:
        """Whether it is another link to a file that was found to be damaged."""
        return self._aside(sha256, _mark(file.stat(follow_symlinks=False))).exists()

    def walk(self, first: int = 0) -> Iterator[tuple[int, dict[str, int]]]:
        for part in range(first, PARTS):
            found = {}
            with suppress(FileNotFoundError), os.scandir(self._blobs / f"{part:02x}") as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
            if found:
                yield part, found

    def check(self, manifest: FileManifest) -> None:
        for file in manifest.files:
            size = size_of(self.blob_path(file.sha256))
            if size != file.size:
                state = "is gone" if size is None else f"has {size:,} bytes instead of {file.size:,}"
                raise BlobMissing(f"The stored content of {file.path} ({file.sha256[:12]}…) {state}.")

    @contextmanager
    def opened(self, sha256: str) -> Iterator[Content]:
        try:
            descriptor = os.open(self.blob_path(sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BlobMissing(f"The store does not hold {sha256[:12]}…") from None
        try:
            yield OpenFile(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def verify(self, sha256: str, *, counted: Counted) -> BlobFlaw | None:
        path = self.blob_path(sha256)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _unreadable(path, error)
        try:
            status = os.fstat(descriptor)
            found = _hash(descriptor, counted)
        except OSError as error:
            return _unreadable(path, error)
        finally:
            os.close(descriptor)
        if found == sha256:
            return None
        return BlobFlaw(status.st_size, _mark(status), f"Its content has another sha256: {found[:12]}…")

    def come_bytes(self, manifest: FileManifest) -> int:
        return manifest.size_bytes

    def is_at_hand(self, manifest: FileManifest) -> bool:
        return manifest.size_bytes <= AT_ONCE_BYTES or self._directories.whole(manifest) is not None

    def materialise(self, manifest: FileManifest) -> Path:
        self._make()
        return self._directories.make(manifest, before=lambda: self._read_all(manifest))

    def _read_all(self, manifest: FileManifest) -> None:
        """BlobMissing unless every content is still what the manifest, and whoever signed it, says."""
        self.check(manifest)
        paths = {file.sha256: file.path for file in manifest.files}
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            flaws = pool.map(lambda sha256: self.verify(sha256, counted=lambda _: None), paths)
            for path, flaw in zip(paths.values(), flaws, strict=True):
                if flaw:
                    raise BlobMissing(
                        f"The stored content of {path} is damaged: {flaw.detail} Check the store to have it "
                        "repaired."
                    )

    def dematerialise(self, digest: str) -> None:
        self._make()
        self._directories.remove(digest)

    def materialised(self) -> dict[str, datetime]:
        self._make()
        return self._directories.all()

    def look(self) -> StoreDescription:
        return StoreDescription("directory", str(self.root))

    def free_bytes(self) -> int:
        """Bytes that this process may still write; the home may not exist yet."""
        place = self.root
        while not place.exists():
            place = place.parent
        status = os.statvfs(place)
        return status.f_bavail * status.f_frsize


def _mark(status: os.stat_result) -> str:
    """Tells this very file from others that come to have its name."""
    return str(status.st_ino)


def _unreadable(path: Path, error: OSError) -> BlobFlaw:
    status = path.stat(follow_symlinks=False)
    words = f"It cannot be read: {os.strerror(error.errno or errno.EIO)}."
    return BlobFlaw(status.st_size, _mark(status), words)


def _hash(descriptor: int, counted: Counted) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    offset = 0
    while read := os.preadv(descriptor, [buffer], offset):
        digest.update(buffer[:read])
        offset += read
        counted(read)
    # What serves models wants the page cache for what it reads.
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()
