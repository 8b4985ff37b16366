"""Whether a promoted version uses its error budget too fast. Pure.

Two windows, as the SRE workbook has it (chapter 5, multiwindow alerts): the long one says that it matters,
the short one that it still goes on.
"""

from collections.abc import Sequence
from typing import NamedTuple

LONG_SECONDS, SHORT_SECONDS = 300.0, 60.0
LEAST_BAD = 10
"""Errors of the long window below which nothing is said: a few are an accident at any rate."""


class ErrorCount(NamedTuple):
    """Cumulative counts at a moment, in seconds since the epoch."""

    at: float
    requests: int
    errors: int


class BudgetBurn(NamedTuple):
    """Errors within the long window, and how many times as fast as allowed they use the budget."""

    requests: int
    errors: int
    rate: float


def burn_of(counts: Sequence[ErrorCount], *, objective_percent: float, most_rate: float) -> BudgetBurn | None:
    """Return the burn when it is above `most_rate` in both windows; None: it is not. Oldest count first."""
    if len(counts) < 2:
        return None
    budget = 1 - objective_percent / 100
    long, short = (_within(counts, seconds) for seconds in (LONG_SECONDS, SHORT_SECONDS))
    rates = [errors / requests / budget if requests else 0.0 for requests, errors in (long, short)]
    if long[1] < LEAST_BAD or min(rates) < most_rate:
        return None
    return BudgetBurn(*long, rates[0])


def recent(counts: Sequence[ErrorCount], now: float) -> list[ErrorCount]:
    """Return what the long window needs: one count from before it, and all within."""
    before = [one for one in counts if now - one.at >= LONG_SECONDS]
    return [*before[-1:], *(one for one in counts if now - one.at < LONG_SECONDS)]


def _within(counts: Sequence[ErrorCount], seconds: float) -> tuple[int, int]:
    last = counts[-1]
    first = next((one for one in reversed(counts) if last.at - one.at >= seconds), counts[0])
    return last.requests - first.requests, last.errors - first.errors
