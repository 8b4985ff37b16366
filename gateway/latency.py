"""Latency histograms as the gateway keeps them: cumulative counts by upper bound. Pure."""

import math
from itertools import pairwise

from serving.protocol import LATENCY_BOUNDS_MS

Histogram = tuple[tuple[float, int], ...]
"""(upper bound in ms, requests at or below it), ascending; the last bound is infinity. Empty: nothing
counted."""

BOUNDS_MS = LATENCY_BOUNDS_MS
"""Of every histogram here, whoever counts."""


def total(histogram: Histogram) -> int:
    return histogram[-1][1] if histogram else 0


def since(before: Histogram, after: Histogram) -> Histogram:
    """Return the difference of two readings. Raises ValueError when they are not of one histogram."""
    if not before:
        return after
    if [bound for bound, _ in before] != [bound for bound, _ in after]:
        raise ValueError("Two histograms with different bounds cannot be subtracted.")
    delta = tuple((bound, late - early) for (bound, early), (_, late) in zip(before, after, strict=True))
    if any(count < 0 for _, count in delta):
        raise ValueError("The later histogram counts less than the earlier: the counters started again.")
    return delta


def sum_ms(histogram: Histogram) -> float:
    """About how long all requests took together: each as long as the middle of its bucket."""
    buckets = pairwise(((0.0, 0), *histogram))
    return sum(
        (late - early) * (low if math.isinf(high) else (low + high) / 2)
        for (low, early), (high, late) in buckets
    )


def quantile_ms(histogram: Histogram, share: float) -> float | None:
    """Latency that `share` (0..1) of the requests stayed at or below; None without requests.

    Linear inside a bucket, so exact to one step of the bounds; the last finite bound when it lies beyond
    that.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"A share lies between 0 and 1, not at {share}.")
    requests = total(histogram)
    if not requests:
        return None
    wanted = share * requests
    for (low, below), (high, at_or_below) in pairwise(((0.0, 0), *histogram)):
        if at_or_below >= wanted and at_or_below > below:
            if math.isinf(high):
                return low
            return low + (high - low) * max(wanted - below, 0) / (at_or_below - below)
    return histogram[-2][0] if len(histogram) > 1 else None
