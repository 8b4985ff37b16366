"""Secrets that somebody left in a text file. Where they stand is told; what they are is kept nowhere."""

import re
from collections.abc import Iterator

from model_store.reading import Content

MAX_BYTES = 64 * 1024 * 1024
"""Of one file; what comes later is not looked at."""
MAX_FOUND = 20
_CHUNK = 1024 * 1024
_OVERLAP = 512
_DIGITS = frozenset(b"0123456789")
_SK = "a secret key (sk-)"
_KINDS: tuple[tuple[tuple[bytes, ...], re.Pattern[bytes], str], ...] = (
    (
        (b"PRIVATE KEY",),
        re.compile(rb"-----BEGIN (?:[A-Z]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
        "a private key",
    ),
    ((b"hf_",), re.compile(rb"\bhf_[A-Za-z0-9]{30,60}\b"), "a token of Hugging Face"),
    ((b"AKIA", b"ASIA"), re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "a key of AWS"),
    (
        (b"gh", b"github_pat_"),
        re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,80}|github_pat_[A-Za-z0-9_]{60,100})\b"),
        "a token of GitHub",
    ),
    ((b"glpat-",), re.compile(rb"\bglpat-[A-Za-z0-9_-]{20,40}\b"), "a token of GitLab"),
    ((b"xox",), re.compile(rb"\bxox[abeoprs]-[A-Za-z0-9-]{20,200}"), "a token of Slack"),
    ((b"slp_",), re.compile(rb"\bslp_[a-z0-9]{10}_[A-Za-z0-9]{43}\b"), "a token of Slipway"),
    (
        (b"sk-",),
        re.compile(rb"\bsk-[A-Za-z0-9_-]{32,200}"),
        _SK,
    ),
    ((b"AIza",), re.compile(rb"\bAIza[A-Za-z0-9_-]{35}\b"), "a key of Google"),
)
"""What must occur before it is worth a search, how it looks, what it is."""


def found_in(content: Content) -> list[tuple[int, str]]:
    """(line, what it looks like) of each secret; at most 20."""
    found: dict[tuple[int, str], None] = {}
    for line, what in _found(content):
        found[line, what] = None
        if len(found) == MAX_FOUND:
            break
    return sorted(found)


def _found(content: Content) -> Iterator[tuple[int, str]]:
    """Chunks overlap, so that nothing hides where one ends; what is seen twice has the same line."""
    lines_before = 1
    for start in range(0, min(content.size, MAX_BYTES), _CHUNK):
        data = content.read_at(start, _CHUNK + _OVERLAP)
        for needles, pattern, what in _KINDS:
            line, counted = lines_before, 0
            for match in pattern.finditer(data) if any(needle in data for needle in needles) else ():
                if what == _SK and not any(byte in _DIGITS for byte in match[0]):
                    continue  # Words with hyphens between them.
                line += data.count(b"\n", counted, match.start())
                counted = match.start()
                yield line, what
        lines_before += data.count(b"\n", 0, _CHUNK)
