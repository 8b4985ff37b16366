"""What a release keeps of itself in words: English in its rows, told again in each reader's language.

A row has many readers, so it holds the source of a sentence with its figures in it. Whoever writes one takes
it from here; a page finds it again by its shape. What a person wrote, or an engine, stays as it is.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from django.utils.translation import get_language, gettext, gettext_noop, ngettext

from common.sentences import joined, listed
from releases.judge import words as judge

STARTED = gettext_noop("Started.")
RESUMED = gettext_noop("Resumed.")
TRIED_AGAIN = gettext_noop("Tried again.")
NOT_READY = gettext_noop("%(version)s is %(state)s, not ready.")
DO_NOT_START = gettext_noop("The candidate's workers do not start: %(fault)s")
FEW_READY = gettext_noop("Only %(ready)s of %(wanted)s workers were ready within %(seconds)s s.")
FEW_READY_SINCE = gettext_noop(
    "Only %(ready)s of %(wanted)s workers were ready within %(seconds)s s: %(fault)s"
)
DIED = gettext_noop("The candidate's workers died before any traffic: %(fault)s")
NO_WORKER = gettext_noop("No worker of the candidate was there to be asked.")
SMOKE_TEST_FAILED = gettext_noop("The smoke test failed on request %(number)s of %(requests)s: %(fault)s.")
FAILED = gettext_noop("The candidate's workers failed: %(fault)s.")
FAILED_AT_LAST = gettext_noop("The candidate's workers failed at the last moment.")
NOT_SPLIT = gettext_noop("The gateway does not split as told (%(percent)s %%): %(why)s")
SPLIT = gettext_noop(
    "%(percent)s %% of %(requests)s requests went to the candidate (%(low)s to %(high)s %% is what chance "
    "allows)."
)
NO_REQUESTS = gettext_noop("No requests came, so the split could not be measured.")
TOO_LITTLE = gettext_noop("Too little evidence after %(seconds)s s: %(why)s")
NOBODY_DECIDED = gettext_noop("Nobody decided within %(duration)s.")
WAITING = gettext_noop("Waiting for approval.")
APPROVED = gettext_noop("Approved: %(reason)s")
GAVE_UP = gettext_noop("Gave up after %(attempts)s attempts: %(fault)s")
SERVES = gettext_noop("%(version)s serves all traffic of %(service)s.")
BAKE_OVER = gettext_noop("The bake is over: the workers of %(version)s stop.")

_WHOLE = (
    *(STARTED, RESUMED, TRIED_AGAIN, NOT_READY, DO_NOT_START, FEW_READY, FEW_READY_SINCE, DIED, NO_WORKER),
    *(SMOKE_TEST_FAILED, FAILED, FAILED_AT_LAST, NOT_SPLIT, SPLIT, NO_REQUESTS, TOO_LITTLE, NOBODY_DECIDED),
    *(WAITING, APPROVED, GAVE_UP, SERVES, BAKE_OVER),
)
_SENTENCES = {"why"}
"""Parts of a sentence that are sentences themselves."""
_FIGURE = r"[\d.,]+"
_FIGURES = {"percent", "ratio", "number"}
_PHRASES = {"what", "chance", "claims", "missing"}
_UNITS = {"h": "%(number)s h", "min": "%(number)s min", "s": "%(number)s s"}
_AMOUNT = re.compile(r"(?P<number>[\d,]+) (?P<unit>days?|h|min|s)\b")


def retold(text: str) -> str:
    """The text in the reader's language, as far as it is made of sentences from here."""
    language = get_language() or ""
    return text if not text or language.startswith("en") else _retold(text, language)


@lru_cache(maxsize=500)
def _retold(text: str, _language: str) -> str:
    if whole := _first(text, _WHOLE):
        return whole
    told: list[str] = []
    rest = text
    while rest:
        sentence, rest = _judged(rest)
        if not sentence:
            return joined((*told, rest))
        told.append(sentence)
    return joined(told)


def _judged(text: str) -> tuple[str, str]:
    """The judge's sentence at the beginning, told again, and what follows; the first is empty for others."""
    for source in judge.SENTENCES:
        if match := re.match(_shape(source) + r"(?: |$)", text):
            return _filled(source, match), text[match.end() :]
    return "", text


def _first(text: str, sources: Iterable[str]) -> str:
    for source in sources:
        if match := re.fullmatch(_shape(source), text, re.DOTALL):
            return _filled(source, match)
    return ""


def _filled(source: str, match: re.Match[str]) -> str:
    return gettext(source) % {name: _part(name, value) for name, value in match.groupdict().items()}


def _part(name: str, value: str) -> str:
    if name in _SENTENCES:
        return retold(value)
    if name in _PHRASES:
        # A comma within a number has no space behind it.
        return listed(_first(one, judge.PHRASES) or one for one in value.split(", "))
    if name == "duration":
        return _AMOUNT.sub(_amount, value)
    return gettext(value.capitalize()) if name == "state" else value


def _amount(match: re.Match[str]) -> str:
    number, unit = match["number"], match["unit"]
    if unit.startswith("day"):
        words = ngettext("%(number)s day", "%(number)s days", 1 if number == "1" else 2)
    else:
        words = gettext(_UNITS[unit])
    return words % {"number": number}


@lru_cache(maxsize=200)
def _shape(source: str) -> str:
    """A pattern of what `source % {...}` makes."""
    literal = (re.escape(part.replace("%%", "%")) for part in re.split(r"%\(\w+\)s", source))
    found = re.findall(r"%\((\w+)\)s", source)
    names = (f"(?P<{name}>{_FIGURE if name in _FIGURES else '.+?'})" for name in found)
    return "".join(part + name for part, name in zip(literal, [*names, ""], strict=True))
