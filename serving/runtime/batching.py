"""Which calls of a model's method run together, and when. Pure: times are given, nothing is run.

A batch waits only for calls that may come: as long as fewer requests wait here than are being worked on in
CPU processes. A lone request therefore never waits, and under load batches fill while the one before them
runs.
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
WAIT_IN_VAIN = 16
"""After so many waits in a row that brought nobody, only each so-manieth batch waits."""
ONLINE, OFFLINE = 0, 1


@dataclass(frozen=True)
class BatchRule:
    """How the calls of one method are batched. Seconds. `latency` makes size and wait follow from measured
    times; `bucket` gives the key of an item whose equals may share a batch."""

    max_size: int = DEFAULT_MAX_SIZE
    max_wait: float = 0.0
    latency: float | None = None
    bucket: Callable[..., Hashable] | None = None


@dataclass(eq=False)
class Item:
    """One call. Times are of one monotonic clock in seconds; `deadline` may be infinite."""

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
        """With a margin. Nothing measured: 0. Of one size alone: in proportion."""
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
        self._in_vain = 0
        self._since_wait = 0
        self._had_waited_with = 0

    def __len__(self) -> int:
        return len(self._waiting[ONLINE]) + len(self._waiting[OFFLINE])

    def add(self, item: Item) -> None:
        self._waiting[item.priority].append(item)

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
        """Which of several queues goes first: online before offline, then the oldest."""
        first = self._first()
        return (first.priority, first.arrived)

    def _first(self) -> Item:
        return (self._waiting[ONLINE] or self._waiting[OFFLINE])[0]

    def due_in(self, *, now: float, others: int) -> float:
        """Seconds until its batch should run; 0: now. `others`: requests at work that may still call. Only
        for a queue that is not empty."""
        if others <= 0 or len(self) >= self._size_limit(now) or self._is_weary():
            return 0.0
        first = self._first()
        if self._rule.latency is None:
            due = first.arrived + self._rule.max_wait
        else:
            due = first.arrived + self._rule.latency - self._times.predict(len(self) + 1)
        due = min(due, first.deadline - self._times.predict(1))
        if due > now and not self._had_waited_with:
            self._had_waited_with = len(self)
        return max(0.0, due - now)

    def _is_weary(self) -> bool:
        return self._in_vain >= WAIT_IN_VAIN and self._since_wait % WAIT_IN_VAIN != 0

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
        if self._had_waited_with:
            self._in_vain = 0 if len(batch) > self._had_waited_with else self._in_vain + 1
            self._had_waited_with = 0
        self._since_wait += 1
        return batch

    def observe(self, size: int, seconds: float) -> None:
        self._times.observe(size, seconds)
