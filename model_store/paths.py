"""Paths that the files inside a version may have.

Processes without Django use this, and rows keep what they say: it is in English.
"""

import re
import unicodedata
from collections.abc import Iterable

from common.characters import HIDDEN_CATEGORIES
from model_store.errors import FileRefused

MAX_PATH_BYTES = 1_024
MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 32


def printable(name: str | bytes) -> str:
    """A file name that can be shown: undecodable bytes and control characters as escapes."""
    text = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    decoded = text.decode("utf-8", "backslashreplace")
    return "".join(
        c if unicodedata.category(c) not in HIDDEN_CATEGORIES else f"\\u{ord(c):04x}" for c in decoded
    )


def check_file_path(path: str) -> str:
    """`path`, relative, with '/' between its parts, as stored in a version; or Refused with the reason.

    What passes can be created as it is on Linux, macOS and Windows, and shows as what it is.
    """
    shown = printable(path)[:200]
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        raise FileRefused(shown, "its name is not valid UTF-8") from None
    if not path:
        raise FileRefused("(empty)", "a file needs a name")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        raise FileRefused(shown, "its path is absolute; only paths inside the version are allowed")
    if len(encoded) > MAX_PATH_BYTES:
        raise FileRefused(shown, f"its path is longer than {MAX_PATH_BYTES} bytes")
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        raise FileRefused(shown, f"it lies more than {MAX_DEPTH} directories deep")
    for part in parts:
        _check_component(part, shown)
    return path


def _check_component(part: str, shown: str) -> None:
    if part in ("", ".", ".."):
        raise FileRefused(shown, "its path has an empty, '.' or '..' part")
    if len(part.encode()) > MAX_COMPONENT_BYTES:
        raise FileRefused(
            shown,
            f"a part of its path is longer than {MAX_COMPONENT_BYTES} bytes",
        )
    if any(unicodedata.category(character) in HIDDEN_CATEGORIES for character in part):
        raise FileRefused(shown, "its name has control, invisible or text-reordering characters")
    if "\\" in part:
        raise FileRefused(shown, "its name has a backslash, which is a directory separator elsewhere")
    if any(character in '<>:"|?*' for character in part):
        raise FileRefused(shown, 'its name has one of < > : " | ? *, which other systems cannot store')
    if part != part.strip() or part.endswith("."):
        raise FileRefused(shown, "its name begins or ends with a space, or ends with a dot")
    if unicodedata.normalize("NFC", part) != part:
        raise FileRefused(shown, "its name is not in Unicode's composed form (NFC)")


def collision_key(path: str) -> str:
    """Two paths with the same key would be one file on a file system that ignores case."""
    return unicodedata.normalize("NFC", path.casefold())


def check_collisions(paths: Iterable[str]) -> None:
    """Refused when two paths would meet on a file system that ignores case, or a file is also a directory."""
    seen: dict[str, str] = {}
    listed = list(paths)
    for path in listed:
        key = collision_key(path)
        if key in seen:
            raise FileRefused(
                path,
                f"'{seen[key]}' differs from it only in upper and lower case, or is the same",
            )
        seen[key] = path
    directories: dict[str, str] = {}
    for path in listed:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            directory = "/".join(parts[:depth])
            key = collision_key(directory)
            if key in seen:
                raise FileRefused(path, f"'{seen[key]}' is both a file and a directory")
            if directories.setdefault(key, directory) != directory:
                raise FileRefused(
                    path,
                    f"the directory '{directories[key]}' differs only in upper and lower case",
                )
