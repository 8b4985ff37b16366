"""Services that answer slower than they did, from kept readings of the gateways' counts."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from gateway.history import Counts, ServiceAnswers, answers_of_all, minute_of, unpacked
from gateway.latency import Histogram, quantile_ms, total
from gateway.models import TrafficReading

LATELY_MINUTES = 10
BEFORE_HOURS = 23
"""Readings of the last day have rows of their own."""
LOOKED_MINUTES = 3
"""A reading is a minute apart from the next; some are missing."""
LEAST_REQUESTS = 100
SLOWER_TIMES = 2.0
LEAST_MS = 100.0
"""What is quicker all the same counts as not slow."""

Readings = Mapping[str, Sequence[tuple[datetime, Counts]]]
"""By service, oldest first."""


class ServiceSpeed(NamedTuple):
    """Latency p95 of a service in the last ten minutes, and on the day before."""

    service: str
    p95_ms: float
    usual_ms: float

    @property
    def times_slower(self) -> float:
        return self.p95_ms / max(self.usual_ms, LEAST_MS / SLOWER_TIMES)


def service_speeds(now: datetime) -> Iterator[ServiceSpeed]:
    """Yield the services with enough answers to be compared with the day before.

    One query; a second one for services whose counts began anew within the day, or were not read for a while:
    of those it compares what is known of each hour.
    """
    yet_unknown = set()
    for service, readings in _readings(now, hours=(BEFORE_HOURS,)).items():
        if _is_whole(readings):
            yield from _speed(service, answers_of_all(readings))
        else:
            yet_unknown.add(service)
    if yet_unknown:
        hours = range(BEFORE_HOURS, 0, -1)
        for service, readings in _readings(now, hours=hours, services=yet_unknown).items():
            yield from _speed(service, answers_of_all(readings))


def _readings(now: datetime, *, hours: Collection[int], services: Collection[str] | None = None) -> Readings:
    """Return the readings of so many hours ago, of ten minutes ago and of now, as far as there are some."""
    last = minute_of(now)
    edges = (*(60 * hour for hour in hours), LATELY_MINUTES, 0)
    edge_of = {last - edge - late: edge for edge in edges for late in range(LOOKED_MINUTES)}
    rows = TrafficReading.objects.filter(route__removed_at=None, minute__in=edge_of).order_by("minute")
    if services is not None:
        rows = rows.filter(route__service__in=services)
    found: dict[str, dict[int, tuple[datetime, Counts]]] = defaultdict(dict)
    for service, minute, at, counts in rows.values_list("route__service", "minute", "at", "counts"):
        found[service][edge_of[minute]] = at, unpacked(counts)
    # Without a reading of ten minutes ago and one of now nothing is known of what comes lately.
    return {
        service: list(by_edge.values())
        for service, by_edge in found.items()
        if {LATELY_MINUTES, 0} <= set(by_edge)
    }


def _is_whole(readings: Sequence[tuple[datetime, Counts]]) -> bool:
    """Return whether there are three readings, of which the first two are of one start of the gateway."""
    if len(readings) < 3:
        return False
    (_, first), (_, second), _ = readings
    return all(counts.epoch == first[name].epoch for name, counts in second.items() if name in first)


def _speed(service: str, intervals: Sequence[ServiceAnswers]) -> Iterator[ServiceSpeed]:
    *day, lately = (one.latency_ms for one in intervals)
    before = _sum(day)
    p95, usual = quantile_ms(lately, 0.95), quantile_ms(before, 0.95)
    if p95 and usual and min(total(before), total(lately)) >= LEAST_REQUESTS:
        yield ServiceSpeed(service, p95, usual)


def _sum(histograms: Sequence[Histogram]) -> Histogram:
    below: dict[float, int] = defaultdict(int)
    for histogram in histograms:
        for bound, count in histogram:
            below[bound] += count
    return tuple(below.items())
