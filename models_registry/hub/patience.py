"""How long a transfer bears with a hub that gives nothing."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from models_registry.hub.base import HubUnreachable, NameUnresolved, RateLimited

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 20.0

NAME_SECONDS = 10.0
"""For a name that does not resolve: that is rarely over soon."""

T = TypeVar("T")


class Patience:
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
        pause = SHORTEST_PAUSE_SECONDS
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
                pause = SHORTEST_PAUSE_SECONDS if self._until != began else pause
                spared = max(0.0, self._seconds - NAME_SECONDS) if isinstance(error, NameUnresolved) else 0.0
                if time.monotonic() + pause > self._until - spared:
                    raise
                self._say(f"{error} Trying again.")
                self._wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    @staticmethod
    def _wait(seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)
