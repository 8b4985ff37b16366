"""From when on an answer is slow: the plan's objective, or what stable's own healthy traffic has shown. Pure.

Only from times in which stable's workers had free slots: under saturation every answer waits, and what is
learnt from waiting calls nothing slow any more. Where there were none, there is no usable threshold.

What is learnt stays with the service from release to release. It follows stable within a factor of `JUMP`;
more than that upwards is no drift but an overload, another machine or another model, and somebody must say
so: a threshold of 320 ms that becomes 16,000 ms would call nothing slow any more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Literal, Self

from gateway.latency import BOUNDS_MS, Histogram, quantile_ms, sum_ms, total
from releases.judge.counts import slow_threshold_ms

LEAST_REQUESTS = 200
"""Answers to learn from: ten of them slow, so that the share above the threshold is 5 +- 1.6 %."""
MOST_ERRORS = 0.02
"""Share of 5xx above which a stretch is not healthy."""
MOST_STRETCH = 2.0
"""A stretch whose p95 is so many times that of the service's calmest quarter is an overload."""
SATURATED_SHARE = 0.9
"""Of the workers' slots, in the mean of a stretch: from here on answers wait for a slot."""
JUMP = 2.0
"""Upwards by more than this, the threshold stays as it was until a person has accepted the new one."""

Source = Literal["plan", "learnt", "person"]


@dataclass(frozen=True, slots=True)
class StableTraffic:
    """Answers of stable in some minutes."""

    requests: int
    errors: int
    latency_ms: Histogram
    seconds: float = 0.0
    """How long it lasted; 0: not known."""

    def is_saturated(self, slots: int) -> bool:
        """Whether its workers had hardly a free slot: mean requests in flight, by Little's law."""
        if not slots or not self.seconds:
            return False
        return sum_ms(self.latency_ms) / 1000 / self.seconds >= SATURATED_SHARE * slots


@dataclass(frozen=True, slots=True)
class StoredThreshold:
    """The service's threshold so far."""

    milliseconds: float
    source: Source
    lowest_ms: float | None = None
    """Of its latest ones since a person has set it: many small steps upwards are a jump, too."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Slower than `milliseconds` is slow, in this release."""

    milliseconds: float
    source: Source
    """The plan's objective; learnt from stable; set by a person."""
    requests: int = 0
    """Healthy answers of stable that were looked at."""
    measured_ms: float | None = None
    """What they show; None where they are too few."""
    previous_ms: float | None = None
    """The service's threshold in the release before; None for the first."""

    @property
    def is_held(self) -> bool:
        """Stable is much slower now, and nobody has accepted that yet."""
        return (
            self.source != "plan"
            and self.measured_ms is not None
            and self.measured_ms > JUMP * self.milliseconds
        )

    @property
    def is_news(self) -> bool:
        """Whether it was learnt just now, and is to be kept."""
        return self.source == "learnt" and self.milliseconds != self.previous_ms

    def to_dict(self) -> dict[str, Any]:
        return {
            "milliseconds": self.milliseconds,
            "source": self.source,
            "requests": self.requests,
            "measured_ms": self.measured_ms,
            "previous_ms": self.previous_ms,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(**data)


def threshold(
    objective_ms: float | None,
    kept: StoredThreshold | None,
    stretches: Sequence[StableTraffic],
    *,
    slots: int = 0,
) -> Threshold | None:
    """The threshold of a release that begins to be judged; None while too little is known.

    `stretches`: of the stable deployment alone, before anything that will be judged by it. `slots`: of all
    its workers; 0: not known.
    """
    if objective_ms is not None:
        return Threshold(at_bound(objective_ms), "plan")
    good = healthy([stretch for stretch in stretches if not stretch.is_saturated(slots)])
    requests = total(good)
    measured = slow_threshold_ms(good, min_requests=LEAST_REQUESTS)
    if kept is None:
        return None if measured is None else Threshold(measured, "learnt", requests, measured)
    # Downwards it follows at once: that is the strict side, and an overload never looks like it.
    lowest = kept.milliseconds if kept.lowest_ms is None else kept.lowest_ms
    if measured is None or measured > JUMP * lowest or measured == kept.milliseconds:
        return Threshold(kept.milliseconds, kept.source, requests, measured, kept.milliseconds)
    return Threshold(measured, "learnt", requests, measured, kept.milliseconds)


def is_unusable(stretches: Sequence[StableTraffic], *, slots: int) -> bool:
    """Whether nothing can be learnt because stable was saturated whenever it answered."""
    answered = [stretch for stretch in stretches if stretch.requests]
    return bool(answered) and all(stretch.is_saturated(slots) for stretch in answered)


def healthy(stretches: Sequence[StableTraffic]) -> Histogram:
    """The answers of those stretches in which stable was neither failing nor overloaded, as one histogram."""
    calm = [
        stretch
        for stretch in stretches
        if stretch.requests and stretch.errors <= MOST_ERRORS * stretch.requests and total(stretch.latency_ms)
    ]
    tails = [(quantile_ms(stretch.latency_ms, 0.95) or 0.0, stretch) for stretch in calm]
    if len(tails) >= 4:
        usual = quantiles([tail for tail, _ in tails], n=4, method="inclusive")[0]
        calm = [stretch for tail, stretch in tails if tail <= MOST_STRETCH * usual]
    return _sum([stretch.latency_ms for stretch in calm])


def at_bound(milliseconds: float) -> float:
    """The bound of the gateway's histograms at which requests slower than that can be counted exactly."""
    return next((bound for bound in BOUNDS_MS if bound >= milliseconds), BOUNDS_MS[-1])


def _sum(histograms: Sequence[Histogram]) -> Histogram:
    bounds = (*BOUNDS_MS, math.inf)
    columns = [dict(histogram) for histogram in histograms]
    if not columns:
        return ()
    return tuple((bound, sum(column.get(bound, 0) for column in columns)) for bound in bounds)
