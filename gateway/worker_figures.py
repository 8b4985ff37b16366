"""Figures that the workers of a version count, beside what its gateway counts. Pure.

Cumulative, as the gateway's counts are, and of the same `epoch`: two readings of it may be subtracted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gateway.history import packed_histogram, unpacked_histogram
from gateway.latency import Histogram, since


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

    def __add__(self, other: "MethodCount") -> "MethodCount":
        return MethodCount(
            self.calls + other.calls,
            self.items + other.items,
            self.queue_seconds + other.queue_seconds,
            self.seconds + other.seconds,
        )

    def __sub__(self, other: "MethodCount") -> "MethodCount":
        return MethodCount(
            self.calls - other.calls,
            self.items - other.items,
            self.queue_seconds - other.queue_seconds,
            self.seconds - other.seconds,
        )

    @property
    def batch_size(self) -> float | None:
        """Mean of a call; so are the seconds below."""
        return self.items / self.calls if self.calls else None

    @property
    def mean_queue_seconds(self) -> float | None:
        return self.queue_seconds / self.calls if self.calls else None

    @property
    def mean_seconds(self) -> float | None:
        return self.seconds / self.calls if self.calls else None


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


@dataclass(frozen=True, slots=True)
class RouteTraffic:
    """Traffic of one route in a stretch of time."""

    requests: int
    errors: int
    latency_ms: Histogram

    def __add__(self, other: "RouteTraffic") -> "RouteTraffic":
        both = zip(self.latency_ms, other.latency_ms, strict=False)
        summed = tuple((bound, one + two) for (bound, one), (_, two) in both)
        return RouteTraffic(
            self.requests + other.requests,
            self.errors + other.errors,
            summed or self.latency_ms or other.latency_ms,
        )


@dataclass(frozen=True, slots=True)
class WorkerInterval:
    """Work of one version's workers between two readings."""

    began_at: datetime
    at: datetime
    routes: Mapping[str, RouteTraffic]
    methods: Mapping[str, MethodCount]
    busy: float
    slots: int
    queue_depth: int

    @property
    def work(self) -> MethodCount:
        """Sum of all methods."""
        return sum(self.methods.values(), MethodCount(0, 0, 0.0, 0.0))


def between(
    began_at: datetime, before: WorkerFigures | None, at: datetime, after: WorkerFigures
) -> WorkerInterval | None:
    """Return the work between two readings; None: other workers, or some of them started again meanwhile."""
    if before is None or before.epoch != after.epoch:
        return None
    routes = {}
    for route, late in after.routes.items():
        early = before.routes.get(route, RouteCount(0, 0))
        timed = since(before.timings.get(route, ()), after.timings.get(route, ()))
        routes[route] = RouteTraffic(late.requests - early.requests, late.errors - early.errors, timed)
    methods = {
        method: late - before.methods.get(method, MethodCount(0, 0, 0.0, 0.0))
        for method, late in after.methods.items()
    }
    return WorkerInterval(began_at, at, routes, methods, after.busy, after.slots, after.queue_depth)
