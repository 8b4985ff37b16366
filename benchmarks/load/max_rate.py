"""The highest rate at which targets hold: double until they break, then bisect in logarithms. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

PRECISION = 1.05
"""Highest rate that held and lowest that broke are so close in the end."""
MOST_PROBES = 14


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
