"""Counters of a run: what the executor tells of its tasks and items. Totals since it started.

Standard library only. `document()` of these is what `/counters` and `/timeline` of a served graph answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(kw_only=True)
class SizeCounters:
    """Calls with batches of one size. `seconds` and `squares`: sums of their times and of the squares."""

    calls: int = 0
    seconds: float = 0.0
    squares: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(kw_only=True)
class TaskCounters:
    """Counters of one task.

    `items`: calls for an item or an element that ended well; `failed` and `retried` others. `queued` and
    `running` are of now. `busy_seconds`: of all replicas together; the busy share of a time is its growth
    over `replicas` x that time. `wait_seconds`: sum over items from ready to begun. `bytes_in`, `bytes_out`:
    of packed values. `sizes`: by size of the batch. `restarts`: processes that ended and were started again.
    """

    items: int = 0
    failed: int = 0
    retried: int = 0
    queued: int = 0
    running: int = 0
    replicas: int = 0
    busy_seconds: float = 0.0
    wait_seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    restarts: int = 0
    load_seconds: float = 0.0
    peak_memory_bytes: int = 0
    sizes: dict[int, SizeCounters] = field(default_factory=dict)

    def observe(self, size: int, seconds: float, cpu_seconds: float) -> None:
        one = self.sizes.setdefault(size, SizeCounters())
        one.calls += 1
        one.seconds += seconds
        one.squares += seconds * seconds
        one.cpu_seconds += cpu_seconds
        self.busy_seconds += seconds


@dataclass(kw_only=True)
class GraphCounters:
    """Counters of a run. `elapsed_seconds`: since it started. `in_flight`: items inside, `memory_bytes` of
    their values; `waiting`: items outside the entry, where the executor knows of them."""

    elapsed_seconds: float
    done: int
    failed: int
    cancelled: int
    in_flight: int
    waiting: int
    memory_bytes: int
    tasks: Mapping[str, TaskCounters]

    def document(self) -> dict[str, Any]:
        document = asdict(self)
        for task in document["tasks"].values():
            task["sizes"] = {str(size): one for size, one in task["sizes"].items()}
        return document


@dataclass(frozen=True, slots=True)
class Span:
    """One call for one item, in seconds since the run started. `element`: its place in an `each`, else -1.
    `batch`: items of the call together. `outcome`: ok, failed, retried or skipped."""

    item: int
    node: str
    task: str
    replica: int
    element: int
    queued: float
    began: float
    ended: float
    batch: int
    attempt: int
    outcome: str


def timeline(spans: Iterable[Span], *, since: float = 0.0, item: int | None = None) -> list[dict[str, Any]]:
    """Spans that ended after `since`, or those of one item, as JSON."""
    return [asdict(one) for one in spans if one.ended >= since and item in (None, one.item)]
