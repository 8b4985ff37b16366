"""Versions as directories: hard links under the versions' own file names, whole or not at all."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from model_store.backends import locks
from model_store.file_manifest import FileManifest

_MAKING = ".making-"


class VersionDirectories:
    """Directories of versions below `root`, each with links to the files that `blob_path` names.

    `lock` lets one process at a time make or remove one. A directory whose files were written to since it was
    made is made anew if `heeds_writes`.
    """

    def __init__(
        self, root: Path, lock: Path, blob_path: Callable[[str], Path], *, heeds_writes: bool = False
    ) -> None:
        self._root = root
        self._lock = lock
        self._blob_path = blob_path
        self._heeds_writes = heeds_writes

    def whole(self, manifest: FileManifest) -> Path | None:
        """The version's directory, if it holds exactly the manifest's files, each still with its size."""
        directory = self._root / manifest.digest
        try:
            made_ns = directory.stat().st_mtime_ns
            if self._heeds_writes and _written_ns(directory) > made_ns:
                return None
        except FileNotFoundError:
            # Or it is being taken away at this moment.
            return None
        found = {}
        for parent, _, files in os.walk(directory):
            for name in files:
                path = Path(parent, name)
                found[path.relative_to(directory).as_posix()] = size_of(path)
        return directory if found == {file.path: file.size for file in manifest.files} else None

    def make(self, manifest: FileManifest, *, before: Callable[[], None]) -> Path:
        """The version's directory; `before` runs first unless it is there already."""
        if (directory := self.whole(manifest)) is not None:
            return directory
        before()
        with locks.held(self._lock):
            self._remove_stale()
            if (directory := self.whole(manifest)) is not None:
                return directory
            target, making = self._root / manifest.digest, self._root / f"{_MAKING}{uuid4().hex}"
            self._link_files(making, manifest)
            # A clock that was set back must not have it made again and again.
            made_ns = max(time.time_ns(), _written_ns(making))
            os.utime(making, ns=(made_ns, made_ns))
            if target.exists():
                target.rename(self._root / f"{_MAKING}{uuid4().hex}")
            making.rename(target)
            sync_directory(self._root)
            self._remove_stale()
        return target

    def _remove_stale(self) -> None:
        for stale in self._root.glob(_MAKING + "*"):
            shutil.rmtree(stale)

    def _link_files(self, directory: Path, manifest: FileManifest) -> None:
        made = {directory}
        directory.mkdir()
        for file in manifest.files:
            path = directory / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            made.update(parent for parent in path.parents if parent.is_relative_to(directory))
            _link_or_copy(self._blob_path(file.sha256), path)
        for parent in made:
            sync_directory(parent)

    def mark_use(self, manifest: FileManifest) -> bool:
        """Restart the version's idle time; return False if it is missing or incomplete."""
        with locks.held(self._lock):
            directory = self.whole(manifest)
            if directory is not None:
                os.utime(directory)
            return directory is not None

    def remove_unused(self, digest: str, *, since: datetime) -> bool:
        """Unless somebody has asked for it after that moment, or a process holds it as `serving.worker`
        does.
        """
        with locks.held(self._lock):
            directory = self._root / digest
            with suppress(FileNotFoundError):
                if locks.is_held(directory):
                    os.utime(directory)
                if datetime.fromtimestamp(directory.stat().st_mtime, UTC) <= since:
                    doomed = self._root / f"{_MAKING}{uuid4().hex}"
                    directory.rename(doomed)
                    shutil.rmtree(doomed)
                    return True
        return False

    def remove(self, digest: str) -> None:
        with locks.held(self._lock):
            doomed = self._root / f"{_MAKING}{uuid4().hex}"
            with suppress(FileNotFoundError):
                (self._root / digest).rename(doomed)
                shutil.rmtree(doomed)

    def all(self) -> dict[str, datetime]:
        """Since when each is there, by digest."""
        return {
            entry.name: datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC)
            for entry in os.scandir(self._root)
            if not entry.name.startswith(".")
        }


def _written_ns(directory: Path) -> int:
    """When a file below it was written to last; 0: there is none."""
    times = (path.stat(follow_symlinks=False).st_mtime_ns for path in directory.rglob("*") if path.is_file())
    return max(times, default=0)


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-link; copy when the file already has as many links as its file system allows (65,000 on ext4)."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        target.write_bytes(source.read_bytes())
        target.chmod(0o444)


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` last through a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int | None:
    """Bytes of a file; None: there is none."""
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
