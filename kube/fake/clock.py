"""The fake's time: it goes on when it is told to."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 22, 8, 52, 39, tzinfo=UTC)


class SimulatedClock:
    """`seconds` since the cluster began."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self.seconds = 0.0

    def stamp(self) -> str:
        """Whole seconds, as metadata has them."""
        return self.at(self.seconds)

    def exact_stamp(self) -> str:
        """Return the time with microseconds, as in leases and events of events.k8s.io."""
        return (self._start + timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def at(self, seconds: float) -> str:
        return (self._start + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds_of(self, stamp: str) -> float:
        return (datetime.fromisoformat(stamp) - self._start).total_seconds()
