"""When releases are frozen: pure computation over windows with recurrence rules of RFC 5545.

A window begins by the wall clock of its zone and ends by it: one from Friday 18:00 for 62 hours ends on
Monday at 08:00, also where summer time begins or ends in between. A wall time that summer time skips is taken
as one hour later; of a wall time that comes twice, the first is taken.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from dateutil import tz
from dateutil.rrule import rrulestr

HORIZON = timedelta(days=400)
"""An end further ahead is not looked for."""
LONGEST = timedelta(days=366)
FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
LAST_YEAR = 2100


class BadRecurrence(ValueError):
    """The text is no recurrence rule that is understood; `str` says why."""


@dataclass(frozen=True, slots=True)
class FreezeWindow:
    denies: bool
    """True: frozen inside its times; False: frozen outside them."""
    starts_at: datetime
    """Its first time begins."""
    zone: str = "UTC"
    """IANA name of the zone by whose wall clock it recurs."""
    minutes: int | None = None
    """Length of each of its times; None: without an end."""
    recurrence: str = ""
    """Recurrence rule, such as `FREQ=WEEKLY;BYDAY=FR`; empty: once."""
    owner: int | None = None
    """Team that made it; None: the installation. Nobody allows what another forbids."""

    def times(self, after: datetime, before: datetime) -> Iterator["FreezeTime"]:
        """Return its times that overlap the stretch, in order. Raises BadRecurrence."""
        if self.minutes is None:
            if self.starts_at < before:
                yield FreezeTime(self.starts_at, None)
            return
        length, zone = timedelta(minutes=self.minutes), ZoneInfo(self.zone)
        # A day more on both sides: the zone's clock may be that far from UTC's, or change in between.
        first, last = after - length - timedelta(days=1), before + timedelta(days=1)
        for begin in _begins(self, first.date(), last.date()):
            starts, ends = _instant(begin, zone), _instant(begin + length, zone)
            is_skipped = not tz.datetime_exists(begin.replace(tzinfo=zone))
            found = FreezeTime(starts, starts + length if is_skipped else ends)
            if found.ends_after(after) and found.begin < before:
                yield found


@dataclass(frozen=True, slots=True)
class FreezeTime:
    begin: datetime
    end: datetime | None
    """None: no end is known."""

    def ends_after(self, moment: datetime) -> bool:
        return self.end is None or self.end > moment

    def holds(self, moment: datetime) -> bool:
        return self.begin <= moment and self.ends_after(moment)


@dataclass(frozen=True, slots=True)
class FreezeVerdict:
    """Window that freezes at a moment, and the end of the freeze."""

    by: int
    """Index of the window that freezes now."""
    until: datetime | None
    """First moment at which no window freezes; None: unknown, or beyond the horizon."""


def parsed_rule(text: str, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Return the wall times of a recurrence rule, the first at or after `start`. Raises BadRecurrence.

    A rule that no day fulfils would be followed to the year 9999, so nothing after `LAST_YEAR` is returned.
    """
    rule = text.strip().upper().removeprefix("RRULE:")
    parts = dict(part.partition("=")[::2] for part in rule.split(";"))
    if parts.get("FREQ") not in FREQUENCIES:
        raise BadRecurrence(f"FREQ must be one of {', '.join(FREQUENCIES)}")
    count = parts.pop("COUNT", None)
    until = parts.setdefault("UNTIL", f"{LAST_YEAR}1231T235959")
    if until.endswith("Z"):
        parts["UNTIL"] = f"{_moment(until).astimezone(zone):%Y%m%dT%H%M%S}"
    if until[:4] > str(LAST_YEAR):
        raise BadRecurrence(f"UNTIL must be in {LAST_YEAR} at the latest")
    for number in (count or "1", parts.get("INTERVAL", "1")):
        if not (number.isdecimal() and len(number) <= 6 and int(number)):
            raise BadRecurrence("COUNT and INTERVAL must be from 1 to 999999")
    if parts.keys() & {"BYHOUR", "BYMINUTE", "BYSECOND"}:
        raise BadRecurrence("BYHOUR, BYMINUTE and BYSECOND are not supported")
    try:
        begins = rrulestr(";".join(f"{name}={value}" for name, value in parts.items()), dtstart=start)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BadRecurrence(str(error)) from None
    return islice(begins, int(count) if count else None)


def _begins(window: FreezeWindow, first: date, last: date) -> Sequence[datetime]:
    """Return the wall times at which the window begins, from the first day to the last."""
    begins = _begins_of_years(window, first.year, last.year)
    after, until = datetime.combine(first, time.min), datetime.combine(last, time.max)
    return begins[bisect_left(begins, after) : bisect_right(begins, until)]


@lru_cache(maxsize=1024)
def _begins_of_years(window: FreezeWindow, first: int, last: int) -> tuple[datetime, ...]:
    """Follow the rule once for whole years: it can only be followed from its start."""
    zone = ZoneInfo(window.zone)
    start = window.starts_at.astimezone(zone).replace(tzinfo=None)
    begins = parsed_rule(window.recurrence, start, zone) if window.recurrence else iter([start])
    return tuple(begin for begin in takewhile(lambda at: at.year <= last, begins) if begin.year >= first)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    instant: datetime = tz.resolve_imaginary(wall.replace(tzinfo=zone))
    return instant.astimezone(UTC)


def _moment(text: str) -> datetime:
    """Read a time of UTC, such as `20261231T230000Z`."""
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise BadRecurrence(str(error)) from None


def frozen_at(windows: Sequence[FreezeWindow], moment: datetime) -> FreezeVerdict | None:
    """Return what freezes at the moment: a denying window that holds it, or the lack of an allowing one.

    None: nothing does. Denying windows outrank allowing ones.
    """
    by = _cause(windows, moment)
    if by is None:
        return None
    horizon, until, cause = moment + HORIZON, moment, by
    while until < horizon:
        end = _end(windows, cause, until)
        if end is None:
            return FreezeVerdict(by, None)
        until = end
        following = _cause(windows, until)
        if following is None:
            return FreezeVerdict(by, until)
        cause = following
    return FreezeVerdict(by, None)


def _cause(windows: Sequence[FreezeWindow], moment: datetime) -> int | None:
    """Return the index of the window that freezes at the moment."""
    for index, window in enumerate(windows):
        if window.denies and _holding(window, moment):
            return index
    for owner in dict.fromkeys(window.owner for window in windows if not window.denies):
        own = [n for n, window in enumerate(windows) if not window.denies and window.owner == owner]
        if not any(_holding(windows[index], moment) for index in own):
            return own[0]
    return None


def _holding(window: FreezeWindow, moment: datetime) -> list[FreezeTime]:
    soon = moment + timedelta(microseconds=1)
    return [one for one in window.times(moment, soon) if one.holds(moment)]


def _end(windows: Sequence[FreezeWindow], cause: int, moment: datetime) -> datetime | None:
    """Return when that window stops to freeze; None: not within the horizon."""
    if windows[cause].denies:
        ends = [one.end for one in _holding(windows[cause], moment)]
        return None if None in ends else max(end for end in ends if end)
    opens = [
        next((one.begin for one in window.times(moment, moment + HORIZON) if one.begin > moment), None)
        for window in windows
        if not window.denies and window.owner == windows[cause].owner
    ]
    return min((begin for begin in opens if begin), default=None)
