"""Which calls of a model's method run together, and when. Pure: times are given, nothing is run.

A batch waits only for calls that may come and probably will: while fewer requests wait here than are being
worked on in CPU processes, and if calls lately came within such a wait of each other. So nobody waits at low
load, and under load batches fill while the one before them runs.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

DEFAULT_MAX_SIZE = 32
LATENCY_MAX_SIZE = 256
"""The most items of a batch whose size follows from measured times."""
MARGIN = 1.15
"""Predicted times are taken this much longer."""
FORGET = 0.9
WAIT_FROM_SHARE = 0.5
"""A batch waits if such a share of calls, of the latest above all, came within a wait of the one before."""
ONLINE, OFFLINE = 0, 1


@dataclass(frozen=True)
class BatchRule:
    """The rule by which one method's calls are batched. Seconds. `latency` makes size and wait follow from
    measured times; `bucket` gives the key of an item whose equals may share a batch.
    """

    max_size: int = DEFAULT_MAX_SIZE
    max_wait: float = 0.0
    latency: float | None = None
    bucket: Callable[..., Hashable] | None = None


@dataclass(eq=False)
class Item:
    """A call that waits for its batch. Times are seconds of a monotonic clock; `deadline` may be infinite."""

    id: int
    arguments: tuple[Any, ...]
    arrived: float
    deadline: float
    priority: int = ONLINE
    caller: Any = None


class BatchTimes:
    """Seconds that a batch takes by its size: a line through what was measured, lately above all."""

    def __init__(self) -> None:
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        self.largest = 0

    def observe(self, size: int, seconds: float) -> None:
        self._n, self._x, self._y = (
            FORGET * self._n + 1,
            FORGET * self._x + size,
            FORGET * self._y + seconds,
        )
        self._xx, self._xy = FORGET * self._xx + size * size, FORGET * self._xy + size * seconds
        self.largest = max(self.largest, size)

    def predict(self, size: int) -> float:
        """Predict the seconds with a margin. Nothing measured: 0. Of one size alone: in proportion."""
        if not self._n:
            return 0.0
        mean_x, mean_y = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - mean_x**2
        if spread < 1e-9:
            return MARGIN * mean_y * max(1.0, size / mean_x)
        slope = max(0.0, (self._xy / self._n - mean_x * mean_y) / spread)
        return MARGIN * max(mean_y + slope * (size - mean_x), mean_y * min(1.0, size / mean_x))


class BatchQueue:
    """The waiting calls of one method, and of one bucket of it."""

    def __init__(self, rule: BatchRule) -> None:
        self._rule = rule
        self._times = BatchTimes()
        self._waiting: tuple[deque[Item], deque[Item]] = (deque(), deque())
        self._latest = -float("inf")
        self._close_share = 0.6

    def __len__(self) -> int:
        return len(self._waiting[ONLINE]) + len(self._waiting[OFFLINE])

    def add(self, item: Item) -> None:
        is_close = item.arrived - self._latest <= self._longest_wait(1)
        self._close_share = FORGET * self._close_share + (1 - FORGET) * is_close
        self._latest = item.arrived
        self._waiting[item.priority].append(item)

    def _longest_wait(self, size: int) -> float:
        """Return how long a batch's first item may wait; the batch of that size grows by one meanwhile."""
        if self._rule.latency is None:
            return self._rule.max_wait
        return self._rule.latency - self._times.predict(size + 1)

    def remove(self, wanted: Callable[[Item], bool]) -> list[Item]:
        """Takes out what is wanted, wherever it stands."""
        taken: list[Item] = []
        for waiting in self._waiting:
            found = [item for item in waiting if wanted(item)]
            for item in found:
                waiting.remove(item)
            taken += found
        return taken

    @property
    def order(self) -> tuple[int, float]:
        """Return the order among several queues: online before offline, then the oldest."""
        first = self._first()
        return (first.priority, first.arrived)

    def _first(self) -> Item:
        return (self._waiting[ONLINE] or self._waiting[OFFLINE])[0]

    def due_in(self, *, now: float, others: int) -> float:
        """Seconds until its batch should run; 0: now. `others`: requests at work that may still call. Only
        for a queue that is not empty."""
        if others <= 0 or self._close_share < WAIT_FROM_SHARE or len(self) >= self._size_limit(now):
            return 0.0
        first = self._first()
        due = first.arrived + self._longest_wait(len(self))
        return max(0.0, min(due, first.deadline - self._times.predict(1)) - now)

    def _size_limit(self, now: float) -> int:
        rule = self._rule
        if rule.latency is None:
            return rule.max_size
        # Not far beyond what was measured: the line is a guess there.
        most = min(rule.max_size, max(2, 2 * self._times.largest))
        left = self._first().arrived + rule.latency - now
        if self._times.predict(1) >= left:
            return most  # late already: as many as possible, so that the next ones are not
        size = 1
        while size < most and self._times.predict(size + 1) <= left:
            size += 1
        return size

    def take(self, *, now: float) -> list[Item]:
        """The next batch: online calls first, offline ones in the room that they leave."""
        limit = self._size_limit(now)
        batch: list[Item] = []
        for waiting in self._waiting:
            while waiting and len(batch) < limit:
                batch.append(waiting.popleft())
        return batch

    def observe(self, size: int, seconds: float) -> None:
        self._times.observe(size, seconds)
