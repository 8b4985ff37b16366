"""The list of files that is a version, and the digest over it."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from models_registry import names
from models_registry.errors import Refused

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file of a version: relative path with '/', bytes, sha256 in lower-case hex, what its content is."""

    path: str
    size: int
    sha256: str
    format: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files sorted by the bytes of their paths; build it with `manifest_of`, which checks them."""

    files: tuple[ManifestFile, ...]

    @property
    def digest(self) -> str:
        """sha256 in hex over what `sha256sum` prints for the files in byte order of their paths.

        So anybody can check it without Slipway, inside a copy of the version's directory:
        `find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum`
        """
        lines = "".join(f"{file.sha256}  {file.path}\n" for file in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def manifest_of(files: Iterable[ManifestFile]) -> Manifest:
    """A checked manifest; Refused when a path is hostile, listed twice, both file and directory, or differs
    in case.
    """
    ordered = tuple(sorted(files, key=lambda file: file.path.encode("utf-8", "surrogatepass")))
    if not ordered:
        raise Refused(_("(version)"), _("it holds no files"))
    for file in ordered:
        names.check_file_path(file.path)
        if file.size < 0 or not _SHA256.fullmatch(file.sha256):
            raise Refused(names.printable(file.path), _("its size or sha256 is malformed"))
    check_collisions(file.path for file in ordered)
    return Manifest(ordered)


def check_collisions(paths: Iterable[str]) -> None:
    """Refused when two paths would meet on a file system that ignores case, or a file is also a directory."""
    seen: dict[str, str] = {}
    listed = list(paths)
    for path in listed:
        key = names.collision_key(path)
        if key in seen:
            raise Refused(
                path,
                _("'%(key)s' differs from it only in upper and lower case, or is the same")
                % {"key": seen[key]},
            )
        seen[key] = path
    directories: dict[str, str] = {}
    for path in listed:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            directory = "/".join(parts[:depth])
            key = names.collision_key(directory)
            if key in seen:
                raise Refused(path, _("'%(key)s' is both a file and a directory") % {"key": seen[key]})
            if directories.setdefault(key, directory) != directory:
                raise Refused(
                    path,
                    _("the directory '%(key)s' differs only in upper and lower case")
                    % {"key": directories[key]},
                )
