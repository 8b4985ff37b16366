"""Services that answer slower than they did, from kept readings of the gateways' counts."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from gateway.history import answers_of_all, minute_of, unpacked
from gateway.latency import quantile_ms, total
from gateway.models import TrafficReading
from gateway.traffic import TargetCounts

LATELY_MINUTES = 10
BEFORE_MINUTES = 23 * 60
"""Readings of the last day have rows of their own."""
LOOKED_MINUTES = 3
"""A reading is a minute apart from the next; some are missing."""
LEAST_REQUESTS = 100
SLOWER_TIMES = 2.0
LEAST_MS = 100.0
"""What is quicker all the same troubles nobody."""


class SlowService(NamedTuple):
    service: str
    p95_ms: float
    usual_ms: float


def slow_services(now: datetime) -> Iterator[SlowService]:
    """Yield services whose p95 of the last ten minutes is twice that of the day before, by one query."""
    last = minute_of(now)
    edges = (BEFORE_MINUTES, LATELY_MINUTES, 0)
    wanted = {last - edge - late for edge in edges for late in range(LOOKED_MINUTES)}
    rows = TrafficReading.objects.filter(route__removed_at=None, minute__in=wanted).order_by("minute")
    found: dict[str, dict[int, tuple[datetime, Mapping[str, TargetCounts]]]] = defaultdict(dict)
    for service, minute, at, counts in rows.values_list("route__service", "minute", "at", "counts"):
        edge = next(edge for edge in edges if 0 <= last - edge - minute < LOOKED_MINUTES)
        found[service][edge] = at, unpacked(counts)
    for service, readings in found.items():
        if len(readings) < len(edges):
            continue
        before, lately = answers_of_all([readings[edge] for edge in edges])
        if min(total(before.latency_ms), total(lately.latency_ms)) < LEAST_REQUESTS:
            continue
        usual = quantile_ms(before.latency_ms, 0.95) or math.inf
        p95 = quantile_ms(lately.latency_ms, 0.95) or 0.0
        if p95 >= max(LEAST_MS, SLOWER_TIMES * usual):
            yield SlowService(service, p95, usual)
