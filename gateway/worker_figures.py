"""What the workers of a version count of themselves, beside what its gateway counts. Pure.

Cumulative, as the gateway's counts are, and of the same `epoch`: two readings of it may be subtracted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.history import packed_histogram, unpacked_histogram
from gateway.latency import Histogram


@dataclass(frozen=True, slots=True)
class IndicatorCount:
    """Requests in which an indicator of the service was above 0."""

    requests: int
    lower_is_better: bool


@dataclass(frozen=True, slots=True)
class RouteCount:
    """Requests to one route, whoever chose the version for them."""

    requests: int
    errors: int
    """Those answered 500-599."""


@dataclass(frozen=True, slots=True)
class MethodCount:
    """Calls of one method of a model; sums over them."""

    calls: int
    items: int
    """Sum of the sizes of the batches that they were answered in."""
    queue_seconds: float
    seconds: float
    """At work, of their batches."""


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    epoch: str
    requests: int
    """Answered requests whose side the gateway chose; of those are indicators and timings."""
    indicators: Mapping[str, IndicatorCount] = field(default_factory=dict)
    """Those that the service declares, counted or not."""
    timings: Mapping[str, Histogram] = field(default_factory=dict)
    """Milliseconds of whole answers below 400: by route, `ttft` and `tpot`."""
    routes: Mapping[str, RouteCount] = field(default_factory=dict)
    methods: Mapping[str, MethodCount] = field(default_factory=dict)
    busy: float = 0.0
    """Mean share of the slots at work over the last 10 s."""
    slots: int = 0
    queue_depth: int = 0


def packed_figures(figures: Mapping[str, WorkerFigures]) -> dict[str, Any]:
    """Return the figures as JSON, by target; `unpacked_figures` reads it, but for the indicators, which no
    page shows.
    """
    return {
        target: {
            "epoch": one.epoch,
            "requests": one.requests,
            "timings": {of: packed_histogram(histogram) for of, histogram in one.timings.items()},
            "routes": {route: [count.requests, count.errors] for route, count in one.routes.items()},
            "methods": {
                method: [count.calls, count.items, round(count.queue_seconds, 6), round(count.seconds, 6)]
                for method, count in one.methods.items()
            },
            "now": [round(one.busy, 4), one.slots, one.queue_depth],
        }
        for target, one in figures.items()
    }


def unpacked_figures(document: Mapping[str, Any]) -> dict[str, WorkerFigures]:
    found = {}
    for target, one in document.items():
        busy, slots, queue_depth = one["now"]
        found[target] = WorkerFigures(
            epoch=one["epoch"],
            requests=one["requests"],
            timings={of: unpacked_histogram(buckets) for of, buckets in one["timings"].items()},
            routes={route: RouteCount(*counts) for route, counts in one["routes"].items()},
            methods={method: MethodCount(*counts) for method, counts in one["methods"].items()},
            busy=busy,
            slots=slots,
            queue_depth=queue_depth,
        )
    return found


def mean_of(values: Sequence[tuple[float, int]]) -> float | None:
    """Return the mean of pairs of value and weight."""
    weight = sum(one for _, one in values)
    return sum(value * one for value, one in values) / weight if weight else None
