"""How busy a worker is and how fast it answers, over the recent past."""

import math
from collections import deque
from collections.abc import Sequence

from serving.protocol import BUSY_WINDOW_SECONDS, Latency


class BusyRate:
    """The mean share of the slots that were at work over the last 10 s, exactly.

    A slot is at work from when a request gets it until its answer is made; waiting for the GPU counts as
    work. What lies before the start counts as idle. Times are seconds of one monotonic clock.
    """

    def __init__(self, slots: int, *, now: float, window_seconds: float = BUSY_WINDOW_SECONDS) -> None:
        self._slots = slots
        self._window = window_seconds
        self._level = 0
        self._since = now
        self._past: deque[tuple[float, float, int]] = deque()

    def change(self, level: int, *, now: float) -> None:
        """Note that `level` slots are at work from `now` on."""
        if level != self._level:
            self._past.append((self._since, now, self._level))
            self._level, self._since = level, now
            self._forget(now)

    def share(self, *, now: float) -> float:
        self._forget(now)
        begin = now - self._window
        slot_seconds = sum((end - max(start, begin)) * level for start, end, level in self._past)
        slot_seconds += (now - max(self._since, begin)) * self._level
        return min(1.0, max(0.0, slot_seconds / (self._slots * self._window)))

    def _forget(self, now: float) -> None:
        while self._past and self._past[0][1] <= now - self._window:
            self._past.popleft()


class Recent:
    """The latest observations of a duration: at most the last minute's, at most `limit` of them."""

    def __init__(self, *, window_seconds: float = 60.0, limit: int = 512) -> None:
        self._window = window_seconds
        self._seen: deque[tuple[float, float]] = deque(maxlen=limit)

    def observe(self, seconds: float, *, now: float) -> None:
        self._seen.append((now, seconds))

    def latency(self, *, now: float) -> Latency | None:
        """Nearest-rank percentiles in milliseconds; None when nothing was seen lately."""
        while self._seen and self._seen[0][0] < now - self._window:
            self._seen.popleft()
        if not self._seen:
            return None
        ordered = sorted(seconds for _, seconds in self._seen)
        return Latency(
            p50_ms=round(_rank(ordered, 0.50) * 1_000, 3),
            p95_ms=round(_rank(ordered, 0.95) * 1_000, 3),
            count=len(ordered),
        )


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
