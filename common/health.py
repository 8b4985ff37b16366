"""Questions to the parts of the system, each answered within a second."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from django.db import connection
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

LIMIT_SECONDS = 1.0
DOWN_AFTER_SECONDS = 10.0
"""A part without a good answer for so long is down. Before that it is slow, or not answering."""

Words = str | Promise
"""Lazy where people read them in their own language."""


class Unhealthy(Exception):
    """The part does not do its work; the message says what is seen, for people."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


class NotInUse(Unhealthy):
    """The part is not set up, and nobody demands it: neither up nor down."""


class PartState(StrEnum):
    UP = "up"
    SLOW = "slow"
    OFF = "off"
    FAILING = "failing"
    """The last question failed; too short ago to call the part down."""
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class PartHealth:
    state: PartState
    vital: bool
    detail: Words
    took_ms: float
    title: Words = ""

    @property
    def ok(self) -> bool:
        return self.state not in (PartState.FAILING, PartState.DOWN)


class HealthProbe:
    """A question to one part. A question that hangs is asked once, however often it is waited for."""

    def __init__(self, name: str, ask: Callable[[], Words], *, vital: bool, title: Words = "") -> None:
        """`ask` returns what it saw, or raises. Without a vital part this process cannot do its own work."""
        self.name = name
        self.title = title or name
        self._ask = ask
        self._vital = vital
        self._lock = Lock()
        self._asked: Future[PartHealth] | None = None
        self._begun_at = self._good_at = float("-inf")
        self._failing_since: float | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"health-{name}")

    def begin(self) -> Future[PartHealth]:
        with self._lock:
            if self._asked is None or self._asked.done():
                self._begun_at = time.monotonic()
                self._asked = self._pool.submit(self._run)
            return self._asked

    def answer(self, asked: Future[PartHealth], *, deadline: float) -> PartHealth:
        """The answer. Without one by `deadline` (of time.monotonic()), a part that was up lately is slow."""
        try:
            return asked.result(timeout=max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            now = time.monotonic()
            if self._failing_since is None and now - self._good_at < DOWN_AFTER_SECONDS:
                state, detail = PartState.SLOW, _("slow to answer")
            else:
                state = self._failure(self._begun_at, now)
                detail = _("no answer yet")
            return PartHealth(state, self._vital, detail, LIMIT_SECONDS * 1000, self.title)

    def _failure(self, since: float, now: float) -> PartState:
        if self._failing_since is None:
            self._failing_since = since
        return PartState.DOWN if now - self._failing_since >= DOWN_AFTER_SECONDS else PartState.FAILING

    def _run(self) -> PartHealth:
        begun = time.monotonic()
        detail: Words
        try:
            state, detail = PartState.UP, self._ask()
        except NotInUse as error:
            state, detail = PartState.OFF, error.words
        except Unhealthy as error:
            self._failure(begun, begun)
            state, detail = PartState.DOWN, error.words
        except Exception as error:
            state, detail = self._failure(begun, time.monotonic()), str(error) or type(error).__name__
        finally:
            connection.close()
        now = time.monotonic()
        if state in (PartState.UP, PartState.OFF):
            self._good_at, self._failing_since = now, None
        return PartHealth(state, self._vital, detail, round((now - begun) * 1000, 1), self.title)
