"""Items of a run as people look for them: their ends with reasons, and what a few of them took and gave.

In memory, and bounded: failed items keep their inputs, so that they can be tried again, the newest finished
ones inputs and outputs.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.graphs.counters import Span
from serving.graphs.errors import ItemForgotten

KEPT_RECORDS = 500
KEPT_FINISHED = 8
"""Finished items whose inputs and outputs are kept."""
KEPT_BYTES = 64 << 20


Outputs = dict[str, tuple[str, bytes]]
"""Suffix and bytes of each output of an item."""
Progress = Callable[[str, int, int], None]
"""Told of each node that is over, with how many are, and of how many."""


@dataclass(eq=False)
class SubmittedItem:
    """An item that waits at the entry or is inside."""

    id: int
    inputs: Mapping[str, bytes]
    priority: int
    outcome: "asyncio.Future[Outputs]"
    progress: Progress | None
    retry_of: int = 0
    until: float = float("inf")
    """Monotonic time of its deadline."""
    arrived: float = field(default_factory=time.time)
    timer: asyncio.TimerHandle | None = None
    told: set[str] = field(default_factory=set)
    calls: list[Span] = field(default_factory=list)

    def record(self, state: str) -> "ItemRecord":
        seconds = time.time() - self.arrived
        return ItemRecord(
            item=self.id,
            state=state,
            arrived=self.arrived,
            seconds=seconds,
            retry_of=self.retry_of,
            calls=self.calls,
        )


@dataclass(kw_only=True)
class ItemRecord:
    """Record of an item. `state`: waiting, running, done, failed or cancelled. `arrived`: seconds since 1970.
    `retry_of`: the item that it repeats, or 0."""

    item: int
    state: str
    arrived: float
    seconds: float = 0.0
    reason: str = ""
    retry_of: int = 0
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    outputs: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    calls: Sequence[Span] = ()
    """Those of its tasks, in the order in which they ended."""

    @property
    def bytes(self) -> int:
        return sum(map(len, self.inputs.values())) + sum(len(data) for _, data in self.outputs.values())

    def document(self) -> dict[str, Any]:
        return {
            "item": self.item,
            "state": self.state,
            "arrived": self.arrived,
            "seconds": self.seconds,
            "reason": self.reason,
            "retry_of": self.retry_of,
            "inputs": sorted(self.inputs),
            "outputs": {name: suffix for name, (suffix, _) in self.outputs.items()},
        }


class ItemRecords:
    def __init__(self) -> None:
        self._ended: OrderedDict[int, ItemRecord] = OrderedDict()
        self._bytes = 0

    def add(self, record: ItemRecord) -> None:
        """Keep an item that is over; older ones lose their bytes first, then are forgotten."""
        self._ended[record.item] = record
        self._bytes += record.bytes
        finished = [one for one in self._ended.values() if one.outputs]
        for one in finished[:-KEPT_FINISHED]:
            self._empty(one)
        for one in [*finished, *self._ended.values()]:
            if self._bytes <= KEPT_BYTES:
                break
            self._empty(one)
        while len(self._ended) > KEPT_RECORDS:
            self._empty(self._ended.popitem(last=False)[1])

    def _empty(self, record: ItemRecord) -> None:
        self._bytes -= record.bytes
        record.inputs, record.outputs = {}, {}

    def newest(self) -> list[ItemRecord]:
        return list(reversed(self._ended.values()))

    def inputs(self) -> list[Mapping[str, bytes]]:
        """Inputs of finished items that are kept."""
        return [one.inputs for one in self._ended.values() if one.state == "done" and one.inputs]

    def get(self, item: int) -> ItemRecord:
        """Raises ItemForgotten."""
        if (found := self._ended.get(item)) is None:
            raise ItemForgotten(f"item {item} is not over, or no longer kept")
        return found
