from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from gateway.backends.envoy import readings
from gateway.backends.envoy.admin import AdminClient
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.shared import SharedReading
from gateway.backends.envoy.store import EnvoyFileStore
from gateway.client_access import ClientReading
from gateway.errors import UnknownRoute
from gateway.traffic import TargetCounts


class EnvoyCounters:
    """A `TrafficMetrics` and a `ClientMetrics`: what Envoy itself has counted since it started."""

    def __init__(
        self, layout: EnvoyFileLayout, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._store = EnvoyFileStore(layout)
        self._admin = AdminClient(port=layout.admin_port, node_id=layout.node_id)
        self._clock = clock
        self._shared = SharedReading(self._read_judged, clock)

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        state = self._store.load()
        if route not in state.routes:
            raise UnknownRoute(f"The gateway has no route {route}.")
        targets = state.targets_of(route)
        if taken_after is None:
            return readings.counts_of(route, self._read({route: targets}))
        return readings.counts_of(route, self._shared.of(route, targets, taken_after=taken_after))

    def clients(self) -> ClientReading:
        begun = self._clock()
        with self._admin.connected() as connection:
            started = self._admin.epoch(connection)
            numbers = self._admin.stats(connection, readings.CLIENTS)
        return readings.clients_of(readings.EnvoyReading(begun, {}, started, numbers))

    def _read_judged(self, routes: Mapping[str, readings.Targets]) -> readings.EnvoyReading:
        return self._read(routes, readings.JUDGED)

    def _read(
        self, routes: Mapping[str, readings.Targets], names: str = readings.ALL
    ) -> readings.EnvoyReading:
        begun = self._clock()
        with self._admin.connected() as connection:
            started = self._admin.epoch(connection)
            numbers = self._admin.stats(connection, readings.pattern(routes, names))
        return readings.EnvoyReading(begun, routes, started, numbers)
