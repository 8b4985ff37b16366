"""What this node has read of a store elsewhere: verified as it comes, hard-linked into versions, limited in
size.

    cache/ab/<sha256>    read-only, complete; when it was last linked is its time of modification
    cache/.coming-<sha256>  the beginning of one, from which the next process goes on
    versions/<digest>    complete or not there; when it was last asked for is its time of modification

Several processes may use one directory: each version is made by one of them while the others wait, and each
content comes once, under a lock of its own.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from model_store.backends import locks
from model_store.backends.directories import VersionDirectories, size_of, sync_directory
from model_store.backends.ingest import CHUNK_BYTES
from model_store.backends.local_staging import SPARE_BYTES
from model_store.errors import BlobMissing, StagingBusy, StoreFull, StoreUnavailable
from model_store.file_manifest import FileManifest

FILES_AT_ONCE = 4
TRIES = 3
_COMING = ".coming-"

Source = Callable[[str, int, int], Iterator[bytes]]
"""The bytes of a content of this sha256 and size, from an offset on. Raises BlobMissing."""


class NodeCache:
    """`spare`: so long after it was last asked for, or seen held, a version is given up where room is needed.
    None: others say when (`directories.remove`).
    """

    def __init__(
        self, root: Path, source: Source, *, limit_bytes: int, spare: timedelta | None = None
    ) -> None:
        self._source = source
        self._limit_bytes = limit_bytes
        self._spare = spare
        self._blobs = root / "cache"
        self._versions = root / "versions"
        self._locks = root / "locks"
        self.directories = VersionDirectories(self._versions, self._locks / "versions", self._path)

    def make(self) -> None:
        for directory in (self._blobs, self._versions, self._locks):
            directory.mkdir(parents=True, exist_ok=True, mode=0o755)

    def _path(self, sha256: str) -> Path:
        return self._blobs / sha256[:2] / sha256

    def _coming(self, sha256: str) -> Path:
        return self._blobs / (_COMING + sha256)

    def materialise(self, manifest: FileManifest) -> Path:
        """Raises BlobMissing, StoreFull, StoreUnavailable."""
        self.make()
        for _ in range(TRIES):
            # Between our fetching and our linking, or before we said that we need it, another process may
            # have made room.
            with suppress(FileNotFoundError), locks.held(self._locks / manifest.digest, remove=True):
                directory = self.directories.make(manifest, before=lambda: self._bring(manifest))
                if self.directories.mark_use(manifest):
                    return directory
        raise StoreUnavailable(f"Other processes take away from {self._blobs} what this one fetches.")

    def come_bytes(self, manifest: FileManifest) -> int:
        """Return how many bytes of a version are in the cache."""
        sizes = {file.sha256: file.size for file in manifest.files}
        return sum((size_of(self._path(sha256)) or size_of(self._coming(sha256)) or 0) for sha256 in sizes)

    def used_bytes(self) -> int:
        return sum(size for _, size, _ in self._entries())

    def _bring(self, manifest: FileManifest) -> None:
        sizes = {file.sha256: file.size for file in manifest.files}
        missing = {sha256: size for sha256, size in sizes.items() if size_of(self._path(sha256)) != size}
        needed = sum(size - (size_of(self._coming(sha256)) or 0) for sha256, size in missing.items())
        self._make_room(needed, keep=sizes.keys(), digest=manifest.digest)
        self._check_space(needed)
        largest_first = sorted(sizes.items(), key=lambda one: -one[1])
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            coming = [pool.submit(self._have, *one) for one in largest_first]
            try:
                for one in coming:
                    one.result()
            finally:
                pool.shutdown(cancel_futures=True)
        for sha256 in sizes:
            # The last of those that may go.
            with suppress(FileNotFoundError):
                os.utime(self._path(sha256))

    def _have(self, sha256: str, size: int) -> None:
        """Fetch and verify one content; bytes already here are read again, since a disk may have lost
        them.
        """
        path = self._path(sha256)
        with locks.held(self._locks / f"coming-{sha256}", remove=True):
            if size_of(path) is not None:
                if _sha256_of(path) == sha256:
                    return
                path.unlink()
            for is_last in (False, True):
                if self._fetched(sha256, size):
                    return
                if is_last:
                    raise BlobMissing(
                        f"The stored content {sha256[:12]}… is damaged: check the store to have it repaired."
                    )

    def _fetched(self, sha256: str, size: int) -> bool:
        """False: what has come, in this or in an earlier process, is not it, and is gone."""
        path, coming = self._path(sha256), self._coming(sha256)
        path.parent.mkdir(exist_ok=True)
        with coming.open("a+b") as file:
            if file.tell() > size:
                file.truncate(0)
            file.seek(0)
            digest = hashlib.sha256()
            while data := file.read(CHUNK_BYTES):
                digest.update(data)
            for data in self._source(sha256, size, file.tell()):
                digest.update(data)
                file.write(data)
            file.flush()
            if digest.hexdigest() != sha256:
                coming.unlink()
                return False
            os.fchmod(file.fileno(), 0o444)
            os.fsync(file.fileno())
        coming.replace(path)
        sync_directory(path.parent)
        return True

    def _check_space(self, needed: int) -> None:
        free = self._free_bytes()
        if free < needed + SPARE_BYTES:
            raise StoreFull(needed_bytes=needed + SPARE_BYTES, free_bytes=free)

    def _free_bytes(self) -> int:
        status = os.statvfs(self._blobs)
        return status.f_bavail * status.f_frsize

    def _make_room(self, needed: int, *, keep: Collection[str], digest: str) -> None:
        """Drop what was linked longest ago and is in no version, then versions that nobody uses, until
        `needed` bytes more fit the limit and the disk.
        """
        with suppress(StagingBusy), locks.held(self._locks / "room", wait=False):
            if self._drop_blobs(needed, keep) or self._spare is None:
                return
            before = datetime.now(UTC) - self._spare
            for other, _since in sorted(self.directories.all().items(), key=lambda one: one[1]):
                gone = other != digest and self.directories.remove_unused(other, since=before)
                if gone and self._drop_blobs(needed, keep):
                    return

    def _drop_blobs(self, needed: int, keep: Collection[str]) -> bool:
        """Whether that made room enough."""
        entries = sorted(self._entries())
        over = needed + SPARE_BYTES - self._free_bytes()
        if self._limit_bytes:
            over = max(over, sum(size for _, size, _ in entries) + needed - self._limit_bytes)
        for _, size, path in entries:
            if over <= 0:
                break
            name = path.name.removeprefix(_COMING)
            if name in keep or self._is_in_use(path, name):
                continue
            path.unlink(missing_ok=True)
            over -= size
        return over <= 0

    def _is_in_use(self, path: Path, name: str) -> bool:
        """Linked into a version, or on its way in another process."""
        if path.name != name:
            return locks.is_held(self._locks / f"coming-{name}")
        try:
            return path.stat().st_nlink > 1
        except FileNotFoundError:
            return False

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """When each was last linked, its bytes, where it is."""
        with suppress(FileNotFoundError):
            for path in self._blobs.rglob("*"):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    if path.is_file():
                        yield status.st_mtime_ns, status.st_size, path


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
