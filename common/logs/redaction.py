"""Takes secrets out of text: those that look like one, and those that this installation is known to have."""

import re
from collections.abc import Iterable

SHORTEST_KNOWN = 8
"""Characters: a shorter value is found in too much that is none."""
HIDDEN = "***"

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bslp_([a-z0-9]+)_[A-Za-z0-9]+"), r"slp_\1_***"),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_***"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), "eyJ***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"://([^/\s:@]*):[^/\s@]+@"), r"://\1:***@"),
    (re.compile(r"(?i)\b((?:set-)?cookie[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\r\n]+)"), r"\1***"),
    (
        re.compile(
            r"(?i)\b((?:[a-z]+[_-])*(?:password|passwd|secret|token|(?:api|secret|access|private|signing)[_-]?key|sessionid|csrftoken)[\"']?"
            r"\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;&)}]+)"
        ),
        r"\1***",
    ),
    # Of a query any value may be one: a search, a cursor, a code of single sign-on, a signature.
    (re.compile(r"(?<=\S)([?&][\w.%\[\]-]{1,80}=)[^\s&\"'<>#]+"), r"\1***"),
)

_known: set[str] = set()


def hide(values: Iterable[str]) -> None:
    """Keep these values out of all that this process logs from now on."""
    _known.update(value for value in values if len(value) >= SHORTEST_KNOWN)


def redacted(text: str, *, known: Iterable[str] = ()) -> str:
    """The text without secrets. `known`: further ones, besides those that the process hides anyway."""
    for value in sorted({*_known, *known}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
