"""The rate of requests to one cluster: a token bucket, as kubectl has."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from kube.errors import Throttled


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float = 50.0
    burst: int = 300


ORDINARY = Rate()


class TokenBucket:
    """The token bucket of one cluster in one process. `clock` in seconds, only forwards."""

    def __init__(self, rate: Rate, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._level = float(rate.burst)
        self._at = clock()

    def take(self, *, limit_seconds: float) -> float:
        """Wait for a turn; how long it took. Raises Throttled when it would take longer than the limit."""
        with self._lock:
            now = self._clock()
            self._level = min(float(self._rate.burst), self._level + (now - self._at) * self._rate.per_second)
            self._at = now
            wait = max(0.0, (1 - self._level) / self._rate.per_second)
            if wait > limit_seconds:
                raise Throttled(
                    f"Slipway asks this cluster no more than {self._rate.per_second:g} times a "
                    f"second; the next "
                    f"turn is in {wait:.1f} s.",
                    retry_after_seconds=wait,
                )
            # Whoever waits has the turn already: those who come later wait longer.
            self._level -= 1
        if wait:
            self._sleep(wait)
        return wait
