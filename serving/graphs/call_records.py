"""Calls of processes as they end: spans for timelines, and counters of their tasks."""

import time
from collections import deque
from typing import Any

from serving.graphs.counters import Span, TaskCounters
from serving.graphs.item_state import Unit, packed_in
from serving.graphs.memory import PackedValue
from serving.graphs.replicas import Replica
from serving.graphs.scheduler import Lease, UnitResult
from serving.runtime.frames import Meta

KEPT_SPANS = 50_000
ModelCalled = tuple[str, int, int, int, int]
"""Task, when it was queued, and for how long it waited and worked, in nanoseconds; the size of its batch."""


class CallRecords:
    """`began`: when the run started, by the monotonic clock; spans are in seconds since then."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.spans: deque[Span] = deque(maxlen=KEPT_SPANS)

    def measure(
        self,
        counters: TaskCounters,
        replica: Replica,
        lease: Lease,
        results: list[UnitResult],
        meta: Meta,
        now: float,
    ) -> None:
        """Count an answered lease."""
        counters.peak_memory_bytes = max(counters.peak_memory_bytes, meta["peak"])
        if any(unit.derived is None for unit in lease.units):
            counters.observe(len(lease.units), meta["seconds"], meta["cpu"])
        for unit, result in zip(lease.units, results, strict=True):
            if unit.derived is not None:
                continue
            counters.wait_seconds += lease.began - unit.queued
            if isinstance(result, str):
                counters.failed += 1
            else:
                counters.items += 1
                counters.bytes_out += sum(_size(ref) for ref in result.values())
            self.add(replica, lease, unit, now, "failed" if isinstance(result, str) else "ok")

    def add(self, replica: Replica, lease: Lease, unit: Unit, now: float, outcome: str) -> None:
        if unit.derived is not None:
            return
        began = self.began
        span = Span(
            unit.item.id,
            unit.node,
            replica.task,
            replica.number,
            unit.element,
            unit.queued - began,
            lease.began - began,
            now - began,
            len(lease.units),
            unit.attempt + unit.deaths,
            outcome,
        )
        self.spans.append(span)
        unit.item.calls.append(span)

    def told(self, span: Span) -> ModelCalled:
        times = (self.began + span.queued, span.began - span.queued, span.ended - span.began)
        queued_at, waited, worked = (round(one * 1e9) for one in times)
        return span.task, queued_at, waited, worked, span.batch


def _size(ref: Any) -> int:
    return sum(value.size for value in packed_in(ref) if isinstance(value, PackedValue))
