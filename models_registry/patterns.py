"""Shell patterns over whole paths, as people name files of a version. For processes without Django, too."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def matching(paths: Iterable[str], *, allow: Sequence[str], ignore: Sequence[str]) -> list[str]:
    """Return the paths that match one of `allow` (empty: all match) and none of `ignore`."""
    return [path for path in paths if not why_left_out(path, allow=allow, ignore=ignore)]


def why_left_out(path: str, *, allow: Sequence[str], ignore: Sequence[str]) -> str:
    """Return why the file is left out; empty: it is not."""
    if any(fnmatchcase(path, pattern) for pattern in ignore):
        return "it matches an ignore pattern"
    if allow and not any(fnmatchcase(path, pattern) for pattern in allow):
        return "it matches no allow pattern"
    return ""
