"""The list of files that is a version, and the digest over it."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from model_store.errors import FileRefused
from model_store.paths import check_collisions, check_file_path, printable

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file of a version: relative path with '/', bytes, sha256 in lower-case hex, kind of content."""

    path: str
    size: int
    sha256: str
    format: str = ""


@dataclass(frozen=True, slots=True)
class FileManifest:
    """Files sorted by the bytes of their paths; build it with `manifest_of`, which checks them."""

    files: tuple[ManifestFile, ...]

    @property
    def digest(self) -> str:
        r"""The sha256 in hex over the output of `sha256sum` for the files in byte order of their paths.

        So anybody can check it without Slipway, inside a copy of the version's directory:
        `find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum`
        """
        lines = "".join(f"{file.sha256}  {file.path}\n" for file in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def manifest_of(files: Iterable[ManifestFile]) -> FileManifest:
    """A checked manifest; Refused when a path is hostile, listed twice, both file and directory, or differs
    in case.
    """
    ordered = tuple(sorted(files, key=lambda file: file.path.encode("utf-8", "surrogatepass")))
    if not ordered:
        raise FileRefused("(version)", "it holds no files")
    for file in ordered:
        check_file_path(file.path)
        if file.size < 0 or not _SHA256.fullmatch(file.sha256):
            raise FileRefused(printable(file.path), "its size or sha256 is malformed")
    check_collisions(file.path for file in ordered)
    return FileManifest(ordered)
