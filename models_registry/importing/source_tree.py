"""Reading a directory that others can write to, so that nothing outside of it is ever read.

Every name is opened relative to the descriptor of the directory that was just listed, never followed when it
is a symlink, and checked again when it is open: swapping a file for a link between two looks changes nothing.
"""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from model_store.errors import FileRefused, SourceChanged
from model_store.paths import check_collisions, check_file_path, printable
from models_registry.errors import SourceUnreadable
from models_registry.importing.skipped import SKIPPED_DIRECTORIES, SKIPPED_FILES

MAX_FILES = 20_000
MAX_REFUSALS = 50
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a named pipe put in a file's place must not make the open wait for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (
        stat.S_ISLNK,
        "it is a symbolic link; import a copy without links (`cp -rL`, or `hf download --local-dir`)",
    ),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISBLK, "it is a block device"),
    (stat.S_ISCHR, "it is a character device"),
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file as it was when listed. Times are nanoseconds since the epoch."""

    path: str
    size: int
    device: int
    inode: int
    modified_ns: int
    changed_ns: int

    def is_still(self, status: os.stat_result) -> bool:
        return (self.size, self.device, self.inode, self.modified_ns, self.changed_ns) == (
            status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """A directory's files sorted by path, what was left out and why, and what must not enter (at most 50
    named).
    """

    files: tuple[SourceFile, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    refusals: tuple[FileRefused, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


@contextmanager
def opened(root: Path, relative: str) -> Iterator[int]:
    """A descriptor of the directory `relative` below `root`, no part of which may be a symlink.

    `root` itself is the operator's word and may be one. Raises SourceUnreadable, FileRefused.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SourceUnreadable(f"The import root {root} cannot be opened: {error.strerror}.") from None
    try:
        for part in [part for part in relative.split("/") if part not in ("", ".")]:
            inner = _open_below(descriptor, part, _DIRECTORY, shown=f"{root}/{relative}")
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(directory: int, name: str, flags: int, *, shown: str) -> int:
    if name == "..":
        raise FileRefused(printable(shown), "its path goes upwards ('..')")
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP or _is_link(directory, name):
            raise FileRefused(printable(shown), "it is reached through a symbolic link") from None
        if error.errno == errno.ENOENT:
            raise SourceUnreadable(f"{printable(shown)} is not there.") from None
        raise SourceUnreadable(f"{printable(shown)} cannot be opened: {error.strerror}.") from None


def _is_link(directory: int, name: str) -> bool:
    """O_DIRECTORY | O_NOFOLLOW answers ENOTDIR, not ELOOP, for a symlink."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextmanager
def open_file(directory: int, file: SourceFile) -> Iterator[int]:
    """A descriptor of `file`, which must still be what was listed, and still be so when the block ends.

    Raises SourceChanged, SourceUnreadable, FileRefused.
    """
    parents, _, name = file.path.rpartition("/")
    holder = os.dup(directory)
    try:
        for part in [part for part in parents.split("/") if part]:
            inner = _open_below(holder, part, _DIRECTORY, shown=file.path)
            os.close(holder)
            holder = inner
        descriptor = _open_below(holder, name, _FILE, shown=file.path)
    finally:
        os.close(holder)
    try:
        _check_unchanged(descriptor, file)
        yield descriptor
        _check_unchanged(descriptor, file)
    finally:
        os.close(descriptor)


def _check_unchanged(descriptor: int, file: SourceFile) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not file.is_still(status):
        raise SourceChanged(
            f"{file.path} changed while it was being imported. Import it when nobody writes to it."
        )


def list_files(directory: int, *, ignore_patterns: Sequence[str] = ()) -> DirectoryListing:
    """Everything below `directory`. Does not raise for hostile entries: they come back as refusals.

    `ignore_patterns` are shell patterns over the whole relative path (`*.bin`, `onnx/*`); a match is left
    out.
    """
    walk = _DirectoryWalk(tuple(ignore_patterns))
    walk.enter(directory, "")
    walk.check_links()
    files = sorted(walk.files, key=lambda file: file.path.encode())
    if not walk.refusals and not files:
        walk.refuse("(directory)", "it holds no files to import")
    try:
        check_collisions(file.path for file in files)
    except FileRefused as refusal:
        walk.refusals.append(refusal)
    return DirectoryListing(tuple(files), tuple(walk.skipped), tuple(walk.refusals[:MAX_REFUSALS]))


@dataclass
class _DirectoryWalk:
    ignore_patterns: tuple[str, ...]
    files: list[SourceFile] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    refusals: list[FileRefused] = field(default_factory=list)
    links: dict[str, tuple[tuple[int, int], int]] = field(default_factory=dict)

    def refuse(self, path: str, reason: str) -> None:
        self.refusals.append(FileRefused(printable(path), reason))

    @property
    def is_full(self) -> bool:
        return len(self.refusals) >= MAX_REFUSALS or len(self.files) > MAX_FILES

    def enter(self, directory: int, prefix: str) -> None:
        with os.scandir(directory) as entries:
            found = sorted(entry.name for entry in entries)
        for name in found:
            if self.is_full:
                return
            self._look_at(directory, name, prefix + name)

    def _look_at(self, directory: int, name: str, path: str) -> None:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            return self.refuse(path, f"it cannot be read: {error.strerror}")
        is_directory = stat.S_ISDIR(status.st_mode)
        left_out = (SKIPPED_DIRECTORIES if is_directory else SKIPPED_FILES).get(name)
        if left_out is None and any(fnmatchcase(path, pattern) for pattern in self.ignore_patterns):
            left_out = "it matches an ignore pattern"
        if left_out:
            self.skipped.append((printable(path), left_out))
            return None
        try:
            check_file_path(path)
        except FileRefused as refusal:
            self.refusals.append(refusal)
            return None
        for is_kind, reason in _KINDS:
            if is_kind(status.st_mode):
                return self.refuse(path, reason)
        if is_directory:
            return self._descend(directory, name, path)
        if len(self.files) >= MAX_FILES:
            self.files.append(_source_file(path, status))
            return self.refuse("(directory)", f"it holds more than {MAX_FILES:,} files")
        self.files.append(_source_file(path, status))
        if status.st_nlink > 1:
            self.links[path] = ((status.st_dev, status.st_ino), status.st_nlink)
        return None

    def _descend(self, directory: int, name: str, path: str) -> None:
        try:
            inner = _open_below(directory, name, _DIRECTORY, shown=path)
        except FileRefused as refusal:
            self.refusals.append(refusal)
        except SourceUnreadable as fault:
            self.refuse(path, str(fault))
        else:
            try:
                self.enter(inner, path + "/")
            finally:
                os.close(inner)

    def check_links(self) -> None:
        """A hard link can bring in somebody else's file: all names of an inode must lie in this directory."""
        inside = Counter(identity for identity, _ in self.links.values())
        for path, (identity, total) in self.links.items():
            if total > inside[identity]:
                self.refuse(path, "it is hard-linked from outside the directory; import a copy (`cp -r`)")


def _source_file(path: str, status: os.stat_result) -> SourceFile:
    return SourceFile(
        path, status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    )
