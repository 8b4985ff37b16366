"""How long a transfer bears with a hub that gives nothing."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from common.retry import backoff
from hubs.backends.base import HubUnreachable, NameUnresolved, RateLimited

SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=0.2), timedelta(seconds=20)

NAME_SECONDS = 10.0
"""For a name that does not resolve: that is rarely over soon."""

T = TypeVar("T")


class Retry:
    """Repeats what a hub fails to do, for all connections together, until it has given nothing for so long.

    A limit that the hub states is waited for in full, by all connections.
    """

    def __init__(self, seconds: float, say: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._say = say
        self._lock = threading.Lock()
        self._until = time.monotonic() + seconds
        self._not_before = 0.0

    def renew(self) -> None:
        with self._lock:
            self._until = time.monotonic() + self._seconds

    def keep(self, work: Callable[[], T]) -> T:
        failures = 0
        while True:
            self._wait(self._not_before - time.monotonic())
            began = self._until
            try:
                return work()
            except RateLimited as limit:
                self._say(str(limit))
                with self._lock:
                    self._not_before = max(self._not_before, time.monotonic() + limit.retry_after_s)
                    # It answers; keeping to what it asks for is no failure.
                    self._until = self._not_before + self._seconds
            except HubUnreachable as error:
                failures = failures + 1 if self._until == began else 1
                pause = backoff(failures, first=SHORTEST_PAUSE, longest=LONGEST_PAUSE).total_seconds()
                spared = max(0.0, self._seconds - NAME_SECONDS) if isinstance(error, NameUnresolved) else 0.0
                if time.monotonic() + pause > self._until - spared:
                    raise
                self._say(f"{error} Trying again.")
                self._wait(pause)

    @staticmethod
    def _wait(seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)
