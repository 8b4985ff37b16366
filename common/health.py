"""Questions to the parts of the system, each answered within a second."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from django.db import connection
from django.utils.functional import Promise

LIMIT_SECONDS = 1.0

Words = str | Promise
"""Lazy where people read them in their own language."""


class Unhealthy(Exception):
    """The part does not do its work; the message says what is seen, for people."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True, slots=True)
class PartHealth:
    ok: bool
    vital: bool
    detail: Words
    took_ms: float
    title: Words = ""


class Probe:
    """A question to one part. A question that hangs is asked once, however often it is waited for."""

    def __init__(self, name: str, ask: Callable[[], Words], *, vital: bool, title: Words = "") -> None:
        """`ask` returns what it saw, or raises. Without a vital part this process cannot do its own work."""
        self.name = name
        self.title = title or name
        self._ask = ask
        self._vital = vital
        self._lock = Lock()
        self._asked: Future[PartHealth] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"health-{name}")

    def begin(self) -> Future[PartHealth]:
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = self._pool.submit(self._run)
            return self._asked

    def answer(self, asked: Future[PartHealth], *, deadline: float) -> PartHealth:
        """The answer, or that there is none by `deadline` (of time.monotonic())."""
        try:
            return asked.result(timeout=max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            late = f"no answer within {LIMIT_SECONDS:g} s"
            return PartHealth(False, self._vital, late, LIMIT_SECONDS * 1000, self.title)

    def _run(self) -> PartHealth:
        begun = time.monotonic()
        detail: Words
        try:
            ok, detail = True, self._ask()
        except Unhealthy as error:
            ok, detail = False, error.words
        except Exception as error:
            ok, detail = False, str(error) or type(error).__name__
        finally:
            connection.close()
        took_ms = round((time.monotonic() - begun) * 1000, 1)
        return PartHealth(ok, self._vital, detail, took_ms, self.title)
