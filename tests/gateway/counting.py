"""Helpers for counts of the gateway."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from gateway.latency import BOUNDS_MS, Histogram
from gateway.traffic import TargetCounts


def routed_since(before: Mapping[str, TargetCounts], after: Mapping[str, TargetCounts]) -> dict[str, int]:
    """Requests per target that the gateway routed by weight between two readings, or since it started."""

    def earlier(name: str) -> int:
        one = before.get(name)
        return one.routed if one is not None and one.epoch == after[name].epoch else 0

    return {name: counts.routed - earlier(name) for name, counts in after.items()}


def histogram_of(samples_ms: Sequence[float]) -> Histogram:
    """Return the histogram that a gateway would have counted."""
    ordered = sorted(samples_ms)
    bounds = (*BOUNDS_MS, math.inf)
    # A sample on a bound belongs to it, as "at or below" says.
    return tuple((bound, bisect_left(ordered, math.nextafter(bound, math.inf))) for bound in bounds)
