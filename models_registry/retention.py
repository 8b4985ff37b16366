"""Which versions of a model a retention rule keeps, and why: pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from models_registry.models import Version


@dataclass(frozen=True, slots=True)
class RetentionVerdict:
    """Whether a version goes, and why, or why not, in words."""

    version: Version
    goes: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RetentionPreview:
    """The preview of a rule, newest version first."""

    verdicts: tuple[RetentionVerdict, ...]
    fingerprint: str
    """Names what would go: an order to act carries it, so that nothing else goes than what was seen."""
    freed_bytes: int
    """What no other version holds too: the collection frees it when the grace time is over."""

    @property
    def going(self) -> tuple[Version, ...]:
        return tuple(one.version for one in self.verdicts if one.goes)

    @property
    def staying(self) -> tuple[RetentionVerdict, ...]:
        return tuple(one for one in self.verdicts if not one.goes)

    @property
    def going_bytes(self) -> int:
        return sum(version.size_bytes for version in self.going)


def judged(
    versions: Sequence[Version],
    *,
    keep_last: int,
    keep_days: int,
    needed: Mapping[int, Sequence[str]],
    now: datetime,
) -> tuple[RetentionVerdict, ...]:
    """`versions` are the ready ones of a model, newest first; `needed` says in words what needs which id.

    One reason is enough to stay: among the last, ready for less than so many days, needed.
    """
    young = timedelta(days=keep_days)
    goes = [
        _("older than %(keep_last)s") % {"keep_last": _last(keep_last)},
        _("no alias, service or release needs it"),
    ]
    if keep_days:
        goes.insert(1, _("ready for %(keep_days)s or more") % {"keep_days": _days(keep_days)})
    verdicts = []
    for place, version in enumerate(versions):
        stays = []
        if place < keep_last:
            stays.append(
                _("the newest")
                if place == 0
                else _("among the last %(keep_last)s") % {"keep_last": keep_last}
            )
        if keep_days and version.ready_at and now - version.ready_at < young:
            stays.append(_("ready for less than %(keep_days)s") % {"keep_days": _days(keep_days)})
        stays += needed.get(version.pk, ())
        verdicts.append(RetentionVerdict(version, goes=not stays, reasons=tuple(stays or goes)))
    return tuple(verdicts)


def fingerprint_of(verdicts: Sequence[RetentionVerdict], *, keep_last: int, keep_days: int) -> str:
    going = sorted(one.version.pk for one in verdicts if one.goes)
    return hashlib.sha256(f"{keep_last} {keep_days} {going}".encode()).hexdigest()[:16]


def in_words(keep_last: int, keep_days: int) -> str:
    """The rule as the end of a sentence: `keeps the last 3, and what is younger than 30 days`."""
    if not keep_days:
        return _("keeps %(keep_last)s") % {"keep_last": _last(keep_last)}
    return _("keeps %(keep_last)s, and what is younger than %(keep_days)s") % {
        "keep_last": _last(keep_last),
        "keep_days": _days(keep_days),
    }


def _last(number: int) -> str:
    return _("the newest version") if number == 1 else _("the last %(number)s versions") % {"number": number}


def _days(number: int) -> str:
    return _("a day") if number == 1 else _("%(number)s days") % {"number": number}
