"""A reading shared by all who look at about the same time, such as a hundred releases."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Lock

from gateway.backends.envoy.readings import EnvoyReading, Targets
from gateway.errors import GatewayUnreachable

FRESH_FOR = timedelta(seconds=0.5)
FRESH_FOR_AT_MOST = timedelta(seconds=2)
SHARE_OF_TIME = 10
"""A reading that takes long is fresh for so many times as long: readings are never most of the work."""
WANTED_FOR = timedelta(seconds=15)
"""So long after it was asked for, a route is read along with the others: longer than releases wait between
two looks, or each look would be a reading of its own."""


class SharedReading:
    """The latest reading of this process. `read` asks the gateway; one thread at a time, the others wait."""

    def __init__(
        self, read: Callable[[Mapping[str, Targets]], EnvoyReading], clock: Callable[[], datetime]
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = Lock()
        self._fresh_for = FRESH_FOR
        self._wanted: dict[str, tuple[Targets, datetime]] = {}
        self._latest: EnvoyReading | None = None
        self._failure: tuple[datetime, GatewayUnreachable] | None = None

    def of(self, route: str, targets: Targets, *, taken_after: datetime) -> EnvoyReading:
        """Return a fresh reading with the route that began after that moment. Raises GatewayUnreachable."""
        with self._lock:
            now = self._clock()

            def will_do(at: datetime) -> bool:
                return taken_after < at <= now < at + self._fresh_for

            self._wanted[route] = (targets, now)
            found = self._latest
            if found is not None and will_do(found.at) and found.routes.get(route) == targets:
                return found
            if self._failure is not None and will_do(self._failure[0]):
                # Whoever waited for this lock need not wait for the same silence once more.
                raise self._failure[1]
            since = now - WANTED_FOR
            self._wanted = {name: (those, at) for name, (those, at) in self._wanted.items() if at > since}
            try:
                self._latest = self._read({name: those for name, (those, _) in self._wanted.items()})
            except GatewayUnreachable as error:
                self._failure = (now, error)
                raise
            took = self._clock() - now
            self._fresh_for = min(max(FRESH_FOR, took * SHARE_OF_TIME), FRESH_FOR_AT_MOST)
            return self._latest
