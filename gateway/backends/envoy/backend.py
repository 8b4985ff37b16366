import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

from common.fence import Fence
from common.files import sweep_leftovers
from gateway.backends import checks
from gateway.backends.base import GatewayClass, GatewayHealth
from gateway.backends.envoy import access_log, proof
from gateway.backends.envoy.admin import (
    CLUSTERS,
    LISTENERS,
    ROUTES,
    AdminClient,
    ConfigNotApplied,
    endpoints_of,
)
from gateway.backends.envoy.client_access import filter_messages, source_of
from gateway.backends.envoy.clusters import cluster_messages, endpoint_messages
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.listener import listener_messages
from gateway.backends.envoy.messages.base import Typed
from gateway.backends.envoy.routes import route_messages
from gateway.backends.envoy.store import EndpointObservation, EnvoyFileStore
from gateway.backends.envoy.watchers import check_room
from gateway.backends.state import GatewayState
from gateway.client_access import ClientAccess
from gateway.errors import (
    GatewayError,
    GatewayUnreachable,
    InvalidEndpoint,
    InvalidRoute,
)
from gateway.routes import AbilitySpec, NamedService, RouteSpec, WorkerEndpoint

logger = logging.getLogger(__name__)

WARM_WITHIN_SECONDS = 5.0
"""A new cluster takes requests when its workers were asked for their health once, for which they have 2 s."""
FORGET_TARGET_AFTER = timedelta(days=1)


class ConfigRefused(GatewayError):
    """Envoy has refused a file and goes on with what it had."""


def _is_proven(spec: RouteSpec, before: RouteSpec | None) -> bool:
    """Only weights differ, or there are fewer targets: nothing that Envoy has not taken before. So the way
    back has the fewest moving parts."""
    return (
        before is not None
        and set(spec.targets) <= set(before.targets)
        and (spec.release_header, spec.release_key) == (before.release_header, before.release_key)
        and spec.cohort in (None, before.cohort)
    )


class EnvoyFiles:
    """A `TrafficBackend` and an `AccessBackend` that tells one Envoy by files (LDS, RDS, CDS, EDS, ECDS),
    replaced by rename.

    Envoy needs nothing of us to go on serving. The order of every write: refuse what is late or wrong, write
    down the wish and its fence, put the file, wait until Envoy names its version. A writer may die between
    any two of these: the next one, or `refresh`, finishes. Clusters are there before a route leads to them
    and stay a while after.
    """

    def __init__(
        self, layout: EnvoyFileLayout, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.layout = layout
        self._store = EnvoyFileStore(layout)
        self._admin = AdminClient(port=layout.admin_port, node_id=layout.node_id)
        self._clock = clock

    def set_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        checks.check_spec(spec)
        if not _is_proven(spec, self.desired_route(spec.name)):
            self._prepare(spec, fence)
        with self._store.lock():
            state = self._claimed(spec.name, fence)
            self._change_routes(state, self._with(state, spec, fence))

    def remove_route(self, route: str, *, fence: Fence) -> None:
        with self._store.lock():
            state = self._claimed(route, fence)
            if route in state.routes:
                desired = state.without_route(route, fence=fence, now=self._clock())
            else:
                desired = state.with_fence(route, fence) if route in state.fences else state
            self._change_routes(state, desired)

    def set_abilities(self, specs: Sequence[AbilitySpec], *, observed_at: datetime) -> None:
        checks.check_abilities(specs, observed_at=observed_at)
        with self._store.lock():
            state = self._store.load()
            if observed_at < state.abilities_at:
                logger.debug("an observation of abilities of %s came late", observed_at)
                return
            if state.abilities == {spec.name: spec for spec in specs}:
                self._store.save(replace(state, abilities_at=observed_at))
                return
            for spec in specs:
                self._store.ensure_endpoints(spec.target)
            desired = state.with_abilities(specs, observed_at=observed_at, now=self._clock())
            proof.prove(desired, self.layout)
            warming = state.with_warming_abilities(specs, now=self._clock())
            self._store.save(warming)
            self._publish_clusters(warming)
        self._await_warm(tuple(spec.target for spec in specs))
        with self._store.lock():
            state = self._store.load()
            if observed_at >= state.abilities_at:
                desired = state.with_abilities(specs, observed_at=observed_at, now=self._clock())
                self._change_routes(state, desired)

    def set_access(self, access: ClientAccess, *, observed_at: datetime) -> None:
        filters = filter_messages(access)
        with self._store.lock():
            state = self._store.load()
            if observed_at < state.access_at:
                logger.debug("an observation of keys of %s came late", observed_at)
                return
            self._store.save(replace(state, access_at=observed_at))
            for name, resources in filters.items():
                self._publish(source_of(name), self.layout.extension(name), resources)

    def set_target(
        self, target: str, to: Sequence[WorkerEndpoint] | NamedService, *, observed_at: datetime
    ) -> None:
        workers = checks.check_place(target, to, observed_at=observed_at)
        if isinstance(workers, NamedService):
            raise InvalidEndpoint(
                f"Target {target}: Envoy by files sends to addresses, and {workers} is a service, which only "
                "a gateway inside its cluster can find. Name the addresses of its workers."
            )
        with self._store.target_lock(target):
            last = self._store.observation(target)
            if last and observed_at < last.at:
                logger.debug("%s: an observation of %s came late", target, observed_at)
                return
            self._store.save_observation(target, EndpointObservation(observed_at, workers))
            if target not in self._store.load().clusters:
                version = self._store.version(self.layout.endpoints(target))
                self._store.put_endpoints(target, workers, taken=version)
                return
            try:
                self._publish(
                    endpoints_of(target), self.layout.endpoints(target), endpoint_messages(target, workers)
                )
            except ConfigRefused:
                kept = last.endpoints if last else ()
                self._store.save_observation(target, EndpointObservation(observed_at, kept))
                self._store.put_endpoints(target, kept)
                raise InvalidEndpoint(
                    f"Envoy refuses the endpoints {workers} of {target}; its log says why."
                ) from None

    def refresh(self) -> None:
        sweep_leftovers(self.layout.run_dir, older_than_seconds=60)
        access_log.rotate(self.layout, self._admin)
        with self._store.lock():
            state = self._store.load()
            for target in state.clusters:
                self._store.ensure_endpoints(target)
            self._publish_clusters(state)
            self._store.ensure_filters()
            self._listen()
            self._publish_routes(state)
            pruned = state.pruned(self._clock())
            if pruned is not state:
                self._store.save(pruned)
                self._publish_clusters(pruned)
            self._forget_targets(pruned)

    def desired_route(self, route: str) -> RouteSpec | None:
        return self._store.load().routes.get(route)

    def ready(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        with self._admin.connected() as connection:
            self._admin.epoch(connection)
            hosts = self._admin.healthy_hosts(connection, target)
        return frozenset(WorkerEndpoint(address, port) for address, port in hosts)

    def cannot(self) -> Mapping[str, str]:
        return {}

    def lacking(self) -> str:
        return ""

    def gateway_class(self) -> GatewayClass | None:
        return None

    def health(self) -> GatewayHealth:
        files = {
            LISTENERS: self.layout.listeners,
            CLUSTERS: self.layout.clusters,
            ROUTES: self.layout.routes,
        }
        try:
            with self._admin.connected() as connection:
                self._admin.epoch(connection)
                behind = [
                    path.stem
                    for source, path in files.items()
                    if self._admin.taken(connection, source).version != self._store.version(path)
                ]
                active = self._admin.stats(connection, r"^listener_manager\.total_listeners_active$")
        except GatewayError as error:
            return GatewayHealth(False, str(error))
        if behind:
            return GatewayHealth(
                False, f"Envoy has not taken its present {' and '.join(behind)}; its log says why."
            )
        if not any(active.values()):
            return GatewayHealth(False, f"Envoy cannot listen on {self.layout.bind} port {self.layout.port}.")
        return GatewayHealth(True, f"Envoy serves on {self.layout.bind} port {self.layout.port}.")

    def _claimed(self, route: str, fence: Fence) -> GatewayState:
        state = self._store.load()
        checks.refuse_stale(route, last=state.fences.get(route), fence=fence)
        return state

    def _with(self, state: GatewayState, spec: RouteSpec, fence: Fence) -> GatewayState:
        if state.routes.get(spec.name) == spec and state.fences.get(spec.name) == fence:
            return state
        return state.with_route(spec, fence=fence, now=self._clock())

    def _prepare(self, spec: RouteSpec, fence: Fence) -> None:
        """Have Envoy judge the route, and make its clusters ready to take requests."""
        names = tuple(target.name for target in spec.targets)
        for name in names:
            self._store.ensure_endpoints(name)
        # Routes do not touch each other: what Envoy says of this one alone holds among the others.
        proof.prove(GatewayState(routes={spec.name: spec}), self.layout)
        with self._store.lock():
            state = self._claimed(spec.name, fence)
            is_reachable = self._make_room(state, spec, fence)
        if is_reachable:
            self._await_warm(names)

    def _make_room(self, state: GatewayState, spec: RouteSpec, fence: Fence) -> bool:
        """Have Envoy know the clusters of `spec`; False when it does not run, and will find them."""
        desired = state
        if not {target.name for target in spec.targets} <= set(state.clusters):
            desired = state.with_warming(spec, fence=fence, now=self._clock())
            check_room(spec.name, len(desired.clusters))
            self._store.save(desired)
        try:
            self._publish_clusters(desired)
        except ConfigRefused:
            back = state.with_fence(spec.name, fence)
            self._store.save(back)
            self._store.put(self.layout.clusters, cluster_messages(back, self.layout))
            raise self._invalid(desired) from None
        except ConfigNotApplied:
            raise
        except GatewayUnreachable:
            return False
        return True

    def _await_warm(self, targets: tuple[str, ...]) -> None:
        deadline = monotonic() + WARM_WITHIN_SECONDS
        with self._admin.connected() as connection:
            while cold := self._admin.warming(connection, targets):
                if monotonic() >= deadline:
                    raise ConfigNotApplied(
                        f"The gateway has not made {', '.join(cold)} ready within {WARM_WITHIN_SECONDS:g} s."
                    )
                sleep(0.01)

    def _change_routes(self, before: GatewayState, after: GatewayState) -> None:
        if after is not before:
            self._store.save(after)
        try:
            self._publish_routes(after)
        except ConfigRefused:
            # The fence stays: whoever comes late is late, however this writer fared.
            back = replace(before, fences=after.fences, abilities_at=after.abilities_at)
            self._store.save(back)
            self._store.put(self.layout.routes, route_messages(back))
            raise self._invalid(after) from None

    def _invalid(self, refused: GatewayState) -> InvalidRoute:
        try:
            proof.prove(refused, self.layout)
        except InvalidRoute as error:
            return error
        return InvalidRoute("Envoy refuses this configuration and goes on with the last; its log says why.")

    def _listen(self) -> None:
        """Envoy does not try again by itself to listen on a port that was taken when it started."""
        try:
            self._publish(LISTENERS, self.layout.listeners, listener_messages(self.layout))
        except ConfigRefused:
            raise GatewayError(
                f"Envoy cannot listen on {self.layout.bind} port {self.layout.port}; its log says why."
            ) from None

    def _publish_routes(self, state: GatewayState) -> None:
        self._publish(ROUTES, self.layout.routes, route_messages(state))

    def _publish_clusters(self, state: GatewayState) -> None:
        self._publish(CLUSTERS, self.layout.clusters, cluster_messages(state, self.layout))

    def _publish(self, source: str, path: Path, resources: list[Typed]) -> None:
        """Put the file and see it taken. Raises ConfigRefused, GatewayUnreachable with the file in place."""
        try:
            with self._admin.connected() as connection:
                self._admin.epoch(connection)
                before = self._admin.taken(connection, source)
                version = self._store.put(path, resources, taken=before.version)
                if not self._admin.await_taken(
                    connection, source, version=version, refused_before=before.refused
                ):
                    raise ConfigRefused(
                        f"Envoy refuses {path} and goes on with what it had; its log says why."
                    )
        except ConfigNotApplied:
            raise
        except GatewayUnreachable:
            self._store.put(path, resources, taken=self._store.version(path))
            raise

    def _forget_targets(self, state: GatewayState) -> None:
        before = self._clock() - FORGET_TARGET_AFTER
        for path in self.layout.targets.glob("*.json"):
            target = path.stem
            seen = self._store.observation(target)
            if target not in state.clusters and seen and seen.at < before:
                self._store.forget_target(target)
