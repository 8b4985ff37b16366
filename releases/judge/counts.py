"""From the gateway's cumulative counts to what the judge is told."""

import math
from collections.abc import Mapping
from typing import Protocol

from releases.judge.evidence import BadRequestCount, EvidenceIncrement, SideCounts
from releases.judge.rules import IndicatorName

SLOW_SHARE = 0.05
SLOW_SHARE_RANGE = (0.01, 0.15)

Histogram = tuple[tuple[float, int], ...]


class CountsLike(Protocol):
    """The part of `gateway.traffic.TargetCounts` that is judged.

    Requests that a client forced to a side are no random sample and must not be in these figures.
    """

    @property
    def epoch(self) -> str: ...
    @property
    def requests(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def latency_ms(self) -> Histogram: ...


def increments_between(
    before: Mapping[str, CountsLike],
    after: Mapping[str, CountsLike],
    *,
    candidate: str,
    stable: str,
    seconds: float,
    slow_threshold_ms: float | None,
) -> EvidenceIncrement:
    """Return what the targets named `candidate` and `stable` answered between two readings `seconds` apart.

    Never negative. When a counter started again on either side, or a side is missing from a reading, the
    stretch is lost for both: counted from zero, one side would answer for a shorter and perhaps harder time
    than the other. Take a reading just before each change of weight, so that no increment spans one.
    """
    pairs = [(before.get(name), after.get(name)) for name in (candidate, stable)]
    tallies = [
        _tallies(old, new, slow_threshold_ms) for old, new in pairs if old is not None and new is not None
    ]
    told = [tally for tally in tallies if tally is not None]
    if len(told) < 2:
        return EvidenceIncrement(seconds=seconds, interrupted=True)
    theirs, ours = told
    return EvidenceIncrement(
        seconds=seconds,
        indicators={name: SideCounts(theirs[name], ours[name]) for name in theirs if name in ours},
    )


def slow_threshold_ms(latency_ms: Histogram, *, min_requests: int = 100) -> float | None:
    """The bucket bound that stable's answers have so far exceeded about one time in twenty.

    `latency_ms` is stable's cumulative histogram as read *before* the increments that will be judged by it;
    thus the threshold is predictable and the bets stay fair whatever it turns out to be. None with fewer than
    `min_requests` answers, or with buckets so coarse that no bound has between 1 % and 15 % above it.
    """
    total = latency_ms[-1][1] if latency_ms else 0
    if total < max(min_requests, 1):
        return None
    least, most = SLOW_SHARE_RANGE
    tails = ((bound, (total - below) / total) for bound, below in latency_ms if math.isfinite(bound))
    fit = [(abs(math.log(tail / SLOW_SHARE)), bound) for bound, tail in tails if least <= tail <= most]
    return min(fit)[1] if fit else None


def _tallies(
    before: CountsLike, after: CountsLike, slow_threshold_ms: float | None
) -> dict[IndicatorName, BadRequestCount] | None:
    """Count between the readings; None when the counters started again in between."""
    requests = after.requests - before.requests
    errors = after.errors - before.errors
    timed = answers_of(after.latency_ms) - answers_of(before.latency_ms)
    if after.epoch != before.epoch or min(requests, errors, timed) < 0:
        return None
    # The counters are not read at one instant: an error may be seen a moment before its request.
    tallies: dict[IndicatorName, BadRequestCount] = {
        "errors": BadRequestCount(requests, min(errors, requests))
    }
    if slow_threshold_ms is not None:
        above_before = answers_above(before.latency_ms, slow_threshold_ms)
        above_after = answers_above(after.latency_ms, slow_threshold_ms)
        # A histogram that has had no answer yet may come without buckets.
        if above_after is not None and (above_before is not None or not answers_of(before.latency_ms)):
            slow = above_after - (above_before or 0)
            if slow < 0:
                return None
            tallies["slow"] = BadRequestCount(timed, min(slow, timed))
    return tallies


def answers_of(histogram: Histogram) -> int:
    return histogram[-1][1] if histogram else 0


def answers_above(histogram: Histogram, threshold: float) -> int | None:
    """Return the requests above the bound; None when the histogram has no such bound."""
    for bound, below in histogram:
        if bound == threshold:
            return answers_of(histogram) - below
    return None
