"""Shell patterns over whole paths, as people name files of a version."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from django.utils.translation import gettext as _


def matching(paths: Iterable[str], *, allow: Sequence[str], ignore: Sequence[str]) -> list[str]:
    """Those that match one of `allow` (none: all of them) and none of `ignore`."""
    return [path for path in paths if not why_left_out(path, allow=allow, ignore=ignore)]


def why_left_out(path: str, *, allow: Sequence[str], ignore: Sequence[str]) -> str:
    """Empty: it is not."""
    if any(fnmatchcase(path, pattern) for pattern in ignore):
        return _("it matches an ignore pattern")
    if allow and not any(fnmatchcase(path, pattern) for pattern in allow):
        return _("it matches no allow pattern")
    return ""
