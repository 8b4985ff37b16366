"""Questions whose answer a page may not wait for."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class CachedAnswer(Generic[T]):
    value: T
    age_seconds: float


class BackgroundValue(Generic[T]):
    """`ask` runs in a thread of its own, once at a time however many want to know; it must not raise."""

    def __init__(self, name: str, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = Lock()
        self._asked: Future[tuple[float, T]] | None = None
        self._last: tuple[float, T] | None = None

    def latest(self, *, patience_seconds: float) -> CachedAnswer[T] | None:
        """An answer not older than FRESH_SECONDS if it comes in time, else the last one; None: none yet."""
        with self._lock:
            self._take()
            if self._last is not None and time.monotonic() - self._last[0] < FRESH_SECONDS:
                return self._answer()
            if self._asked is None:
                self._asked = self._pool.submit(self._timed)
            asked = self._asked
        wait_for([asked], timeout=patience_seconds)
        with self._lock:
            self._take()
            return self._answer()

    def _timed(self) -> tuple[float, T]:
        value = self._ask()
        return time.monotonic(), value

    def _take(self) -> None:
        if self._asked is not None and self._asked.done():
            self._last, self._asked = self._asked.result(), None

    def _answer(self) -> CachedAnswer[T] | None:
        if self._last is None:
            return None
        at, value = self._last
        return CachedAnswer(value, time.monotonic() - at)
