"""The highest rate at which targets hold: double until they break, then bisect in logarithms. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from benchmarks.load.records import RequestRecord

PRECISION = 1.05
"""Highest rate that held and lowest that broke are so close in the end."""
MOST_PROBES = 14
LEAST_DECIDED = 20
"""Requests before a probe may end early."""
LOOK_Z = 3.3
"""Of the interval of the good share: it is looked at after each request, not once."""


@dataclass(frozen=True, slots=True)
class RateProbe:
    rate: float
    holds: bool


def next_rate(probes: Sequence[RateProbe], first: float) -> float | None:
    """The rate to be tried next; None: it is found, or cannot be."""
    if not probes:
        return first
    if len(probes) >= MOST_PROBES:
        return None
    held = max((one.rate for one in probes if one.holds), default=None)
    # Noise may let a higher rate hold: the lowest that broke above the highest that held counts.
    broke = min((one.rate for one in probes if not one.holds and one.rate > (held or 0)), default=None)
    if broke is None:
        return (held or first) * 2
    if held is None:
        return broke / 2
    return None if broke / held <= PRECISION else sqrt(held * broke)


class BrokenTargets:
    """Counts the requests of a window, in the order of their schedule, until too few of them are good."""

    def __init__(self, is_good: Callable[[RequestRecord], bool], share: float) -> None:
        self._is_good = is_good
        self._share = share
        self._good = self._decided = 0

    def by(self, record: RequestRecord) -> bool:
        """Count one more; return whether the share of good ones is below the target for all that is likely.

        The other side decides nothing early: a server that is slowly saturated keeps its targets at first.
        """
        self._decided += 1
        self._good += self._is_good(record)
        return self._decided >= LEAST_DECIDED and wilson_high(self._good, self._decided) < self._share


def wilson_high(good: int, count: int, z: float = LOOK_Z) -> float:
    """Return the upper end of Wilson's interval of a share."""
    share, square = good / count, z * z
    spread = z * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return (share + square / (2 * count) + spread) / (1 + square / count)
