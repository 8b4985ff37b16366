"""Error budgets: the failures that an objective allows in its window, what was used, and how fast. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

KEPT_MINUTES = 6 * 60
LEAST_BAD = 10
"""Failures of the long window below which no burn is said: a few are an accident at any rate."""


class GoodAndBad(NamedTuple):
    """Requests of one minute or hour since 1970, and those that failed the objective."""

    number: int
    total: int
    bad: int


@dataclass(frozen=True, slots=True)
class BurnWindows:
    """Two windows of an alert, as the SRE workbook has them (chapter 5): the long one says that it matters,
    the short one that it still goes on."""

    rate: float
    """Times as fast as would use up the budget exactly at the end of 30 days."""
    long_minutes: int
    short_minutes: int


FAST = BurnWindows(14.4, 60, 5)
SLOW = BurnWindows(6.0, 360, 30)


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    total: int
    bad: int
    target_percent: float
    window: timedelta
    burn: dict[int, float | None]
    """Burn rate by the minutes that it is taken over; None: no requests."""
    failures: dict[int, int]
    """Failed requests by the same minutes."""

    @property
    def level_percent(self) -> float | None:
        """Return the share of good requests; None without requests."""
        return 100 * (1 - self.bad / self.total) if self.total else None

    @property
    def allowed(self) -> float:
        """Return how many failures the requests of the window allow."""
        return self.total * (1 - self.target_percent / 100)

    @property
    def remaining(self) -> float:
        """Return the share of the budget that is left; below 0: overspent."""
        return 1 - self.bad / self.allowed if self.allowed else 1.0

    @property
    def lasts(self) -> timedelta | None:
        """Return how long the rest lasts at the rate of the last hour; None: it is not used, or used up."""
        rate = self.burn[FAST.long_minutes]
        return self.window * (self.remaining / rate) if rate and self.remaining > 0 else None


def budget_of(
    minutes: Sequence[GoodAndBad],
    hours: Sequence[GoodAndBad],
    *,
    target_percent: float,
    window: timedelta,
    now: datetime,
) -> ErrorBudget:
    since = hour_of(now - window)
    within = [one for one in hours if one.number > since]
    lengths = [length for each in (FAST, SLOW) for length in (each.long_minutes, each.short_minutes)]
    burn = {length: burn_rate(minutes, length, target_percent=target_percent, now=now) for length in lengths}
    failures = {length: _within(minutes, length, now)[1] for length in lengths}
    total, bad = sum(one.total for one in within), sum(one.bad for one in within)
    return ErrorBudget(total, bad, target_percent, window, burn, failures)


def burn_rate(
    minutes: Sequence[GoodAndBad], length: int, *, target_percent: float, now: datetime
) -> float | None:
    total, bad = _within(minutes, length, now)
    return bad / total / (1 - target_percent / 100) if total else None


def burns(
    minutes: Sequence[GoodAndBad], windows: BurnWindows, *, target_percent: float, now: datetime
) -> float | None:
    """Return the rate of the long window when both are above the limit; None: they are not."""
    long, short = (
        burn_rate(minutes, length, target_percent=target_percent, now=now) or 0.0
        for length in (windows.long_minutes, windows.short_minutes)
    )
    _, bad = _within(minutes, windows.long_minutes, now)
    return long if bad >= LEAST_BAD and min(long, short) > windows.rate else None


def remaining_by_hour(hours: Sequence[GoodAndBad], *, target_percent: float) -> list[tuple[int, float]]:
    """Return by hour what was left of the budget that all requests of the window allow."""
    allowed = sum(one.total for one in hours) * (1 - target_percent / 100)
    found, bad = [], 0
    for one in hours:
        bad += one.bad
        found.append((one.number, 1 - bad / allowed if allowed else 1.0))
    return found


def added(kept: Sequence[GoodAndBad], new: Sequence[GoodAndBad], *, since: int) -> list[GoodAndBad]:
    """Return what was kept with the new counts, ascending, without what lies before `since`."""
    found = {one.number: one for one in kept if one.number >= since}
    for number, total, bad in new:
        if number >= since:
            _, total_before, bad_before = found.get(number, (number, 0, 0))
            found[number] = GoodAndBad(number, total_before + total, bad_before + bad)
    return [found[number] for number in sorted(found)]


def minute_of(at: datetime) -> int:
    return int(at.timestamp() // 60)


def hour_of(at: datetime) -> int:
    return int(at.timestamp() // 3_600)


def _within(minutes: Sequence[GoodAndBad], length: int, now: datetime) -> tuple[int, int]:
    since = minute_of(now) - length
    found = [one for one in minutes if one.number > since]
    return sum(one.total for one in found), sum(one.bad for one in found)
