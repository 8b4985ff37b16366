"""From what a person names as the source of a version to a directory that may be read."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from models_registry.errors import SourceNotAllowed
from models_registry.importing import DirectorySource
from models_registry.names import printable

VARIABLE = "SLIPWAY_IMPORT_ROOTS"
MAX_LENGTH = 4_096


@dataclass(frozen=True, slots=True)
class AllowedDirectory:
    """A directory inside an import root; `path` is relative to `root`, both without symlinks."""

    root: Path
    path: str

    def as_json(self, *, ignore_patterns: Sequence[str]) -> dict[str, Any]:
        return {
            "kind": "directory",
            "uri": (self.root / self.path).as_uri(),
            "root": str(self.root),
            "path": self.path,
            "ignore_patterns": list(ignore_patterns),
        }


def directory_source(source: dict[str, Any]) -> DirectorySource:
    """What `AllowedDirectory.as_json` was made from."""
    return DirectorySource(source["root"], source["path"], tuple(source["ignore_patterns"]))


def allowed_directory(source: str, *, roots: Sequence[Path], store: Path) -> AllowedDirectory:
    """The directory that `source` (an absolute path or a `file:///` address) names.

    It must lie in one of `roots` after all symlinks are resolved, and apart from the `store`. Raises
    SourceNotAllowed. Links that are put in its way later are not followed: see `source_tree.opened`.
    """
    path = _path_of(source)
    if not roots:
        raise SourceNotAllowed(
            f"This server imports from no directory: {VARIABLE} is empty. Its operator sets it to the "
            "directories that imports may read."
        )
    real = Path(os.path.realpath(path))
    inside = [root for root in (Path(os.path.realpath(root)) for root in roots) if real.is_relative_to(root)]
    if not inside:
        named = ", ".join(str(root) for root in roots)
        raise SourceNotAllowed(f"{printable(path)} is not inside an import root ({VARIABLE}: {named}).")
    home = Path(os.path.realpath(store))
    if real.is_relative_to(home) or home.is_relative_to(real):
        raise SourceNotAllowed(f"{printable(path)} overlaps the model store itself.")
    if not real.is_dir():
        what = "is a file, not a directory" if real.exists() else "is not there"
        raise SourceNotAllowed(f"{printable(path)} {what}.")
    root = max(inside, key=lambda root: len(root.parts))
    return AllowedDirectory(root, real.relative_to(root).as_posix())


def _path_of(source: str) -> str:
    text = source.strip()
    if not text or len(text) > MAX_LENGTH or "\x00" in text:
        raise SourceNotAllowed("Give the absolute path of a directory on the server.")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme is None:
        path = text
    elif scheme[1].lower() == "file":
        address = urlsplit(text)
        if address.netloc not in ("", "localhost") or address.query or address.fragment:
            raise SourceNotAllowed("A file address has the form file:///directory, without host, ? and #.")
        path = unquote(address.path, errors="strict") if _decodes(address.path) else ""
    else:
        raise SourceNotAllowed(
            f"This server does not import from {scheme[1].lower()}:// addresses. "
            "Give the absolute path of a directory on the server, or file:///directory."
        )
    if not path.startswith("/") or "\x00" in path:
        raise SourceNotAllowed("Give an absolute path; it begins with '/'.")
    return path


def _decodes(quoted: str) -> bool:
    try:
        unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return False
    return True
