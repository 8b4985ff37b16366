"""Keeps a gateway to its routes: applies what it could not take, and what it has lost with its home.

And keeps what was counted, a reading a minute: charts do not begin when somebody opens a page.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from time import monotonic
from typing import Any

from django.db.models import Q, QuerySet

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.fleet import LastHeartbeat
from clusters.services.lost_rights import recheck_rights
from common import clock
from common.reconcile import Effect, Operation, Reconciler, Step, StepOutcome, proceed, silent_hosts, wait
from gateway import history, key_selectors, selectors, watching
from gateway.backends.base import GatewayHealth
from gateway.backends.configured import backends_of
from gateway.client_access import (
    ClientCounts,
    ClientReading,
    ProcessCounts,
    Processes,
    packed_clients,
    packed_processes,
)
from gateway.errors import (
    GatewayError,
    GatewayRightsMissing,
    GatewayUnreachable,
    InvalidGateway,
    StaleRouteFence,
)
from gateway.history import hour_of
from gateway.load_hours import LOAD_KEPT, begun, folded
from gateway.models import AbilityRoute, Gateway, LoadHour, Route, TrafficReading, WatchedRoute
from gateway.services.abilities import sync_abilities
from gateway.services.client_keys import sync_access
from gateway.services.routes import reapply, sync_workers
from gateway.states import AbilityState
from gateway.traffic import TargetCounts
from gateway.worker_figures import WorkerFigures, packed_figures

logger = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=15)
RETRY_AFTER = timedelta(seconds=2)
TELL_EVERY = timedelta(seconds=1)
AT_MOST_SECONDS = 8.0
"""After this long the rest waits for the next look: a task has 20 s."""
KEPT = timedelta(days=30, hours=1)
"""How long readings of the traffic stay: a little more than the longest that a page shows."""
KEPT_APART = timedelta(hours=25)
"""How long each minute has a row of its own; then its hour has one."""
PACKED_AT_ONCE = 600
"""Rows of minutes that one step puts into those of their hours."""


_told: dict[int, str] = {}
"""By gateway, why it could not be refreshed the last time: the same every other second is no news."""


def _tell(row: Gateway, fault: str) -> None:
    if fault == _told.get(row.pk, ""):
        return
    _told[row.pk] = fault
    if fault:
        logger.warning("The gateway of %s cannot be refreshed: %s", row, fault)
    else:
        logger.info("The gateway of %s is refreshed again", row)


@dataclass(frozen=True, slots=True)
class GatewayObservation:
    health: GatewayHealth
    lacks: str
    """As `TrafficBackend.lacking`."""
    cannot: Mapping[str, str]
    gateway_class: str
    features: Sequence[str] | None
    is_settled: bool
    """Every route is as it should be."""


class KeepRoutes(Step[Gateway]):
    """Set every route that the gateway does not have as its row says. Never raises for the gateway's sake."""

    name = "keep routes"
    effect = Effect.ABSOLUTE

    def act(self, row: Gateway, operation: Operation) -> Mapping[str, Any]:
        until = monotonic() + AT_MOST_SECONDS
        applied: list[str] = []
        for route in _routes_of(row).filter(Q(removed_at__isnull=True) | Q(applied_at__isnull=True)):
            if monotonic() > until:
                break
            try:
                if route.removed_at is None:
                    _sync_workers(route)
                if not _is_kept(route):
                    reapply(route)
                    applied.append(route.service)
            except StaleRouteFence as error:
                logger.info("%s", error)
            except GatewayError as error:
                logger.warning("Route %s: %s", route.service, error)
        fault = ""
        try:
            sync_abilities(row)
        except GatewayError as error:
            logger.warning("The abilities of %s: %s", row, error)
        try:
            sync_access(row)
        except GatewayError as error:
            logger.warning("The keys of clients at %s: %s", row, error)
        try:
            backends_of(row).traffic.refresh()
        except GatewayError as error:
            fault = str(error)
            if isinstance(error, GatewayRightsMissing):
                recheck_rights(row.cluster)
        _tell(row, fault)
        return {"applied": applied}

    def observe(self, row: Gateway, operation: Operation) -> GatewayObservation:
        lacks, cannot = row.lacks, row.cannot
        class_name, features = row.gateway_class, row.features
        try:
            made = backends_of(row)
            health = made.traffic.health()
            # While it cannot be asked, it lacks what it lacked.
            with suppress(GatewayUnreachable):
                lacks, cannot = made.traffic.lacking(), {**made.traffic.cannot(), **made.cannot_count}
                found = made.traffic.gateway_class()
                class_name = found.name if found else ""
                features = None if found is None or found.features is None else sorted(found.features)
        except InvalidGateway as error:
            health = GatewayHealth(False, str(error))
        late = AbilityRoute.objects.filter(gateway=row, state=AbilityState.PENDING)
        is_settled = not (_routes_of(row).filter(applied_at__isnull=True).exists() or late.exists())
        return GatewayObservation(health, lacks, cannot, class_name, features, is_settled)

    def settle(self, row: Gateway, seen: GatewayObservation, now: datetime) -> StepOutcome:
        health = seen.health
        calm = health.ok and seen.is_settled
        told_url = health.address if health.ok else row.host_url
        return proceed(
            after=min(LOOK_EVERY if calm else RETRY_AFTER, _until_next_minute(now)),
            save={
                "seen_at": now,
                "is_healthy": health.ok,
                "detail": health.detail,
                "lacks": seen.lacks,
                "cannot": dict(seen.cannot),
                "gateway_class": seen.gateway_class,
                "features": seen.features,
                "host_url": selectors.public_url(row) if row.host else told_url,
            },
        )


@dataclass(frozen=True, slots=True)
class RouteCounts:
    """Counts of all routes, by the id of the route."""

    readings: Mapping[int, Mapping[str, TargetCounts]]
    figures: Mapping[int, Mapping[str, WorkerFigures]]
    """What workers of a team's own code count, where they answered."""
    heartbeats: Mapping[int, Sequence[LastHeartbeat]]
    """Of the workers that have counted lengths in tokens."""
    clients: ClientReading | None = None
    """By key, where the gateway counts so."""
    processes: Mapping[int, Processes] = field(default_factory=dict)
    """What workers have counted, where it does not."""

    def used(self, route: int) -> dict[str, object]:
        """Return what is known of a route's tokens, as its reading keeps it."""
        if self.clients:
            return packed_clients(self.clients, frozenset(self.readings[route]))
        return packed_processes(self.processes[route]) if self.processes.get(route) else {}

    @property
    def since(self) -> datetime | None:
        """Return the start of counting; None: nothing is counted."""
        return max(
            (one.since for reading in self.readings.values() for one in reading.values()), default=None
        )


class RecordTraffic(Step[Gateway]):
    """Never raises for the gateway's sake: what cannot be read is a gap."""

    name = "record traffic"

    def observe(self, row: Gateway, operation: Operation) -> RouteCounts:
        until = monotonic() + AT_MOST_SECONDS
        routes = list(selectors.routes().filter(gateway=row))
        # Each minute another one is the first: none is always among those for which there was no time.
        begin = history.minute_of(operation.at) % len(routes) if routes else 0
        found: dict[int, Mapping[str, TargetCounts]] = {}
        figures: dict[int, Mapping[str, WorkerFigures]] = {}
        of_own_code = fleet.services_with_routes()
        for route in routes[begin:] + routes[:begin]:
            if monotonic() > until:
                break
            try:
                found[route.pk] = selectors.counts(route)
                if route.service in of_own_code:
                    figures[route.pk] = selectors.worker_figures(route.service)
            except GatewayError as error:
                logger.info("The traffic of %s is not recorded: %s", route.service, error)
        heard = fleet.heartbeats_by_service(route.service for route in routes)
        counts_keys = backends_of(row).clients is not None
        return RouteCounts(
            found,
            figures,
            _counted_lengths(routes, heard),
            key_selectors.client_counts(row),
            {} if counts_keys else {one.pk: _processes(heard.get(one.service, ())) for one in routes},
        )

    def settle(self, row: Gateway, seen: RouteCounts, now: datetime) -> StepOutcome:
        minute = history.minute_of(now)

        def write() -> None:
            TrafficReading.objects.bulk_create(
                (
                    TrafficReading(
                        route_id=route,
                        minute=minute,
                        at=now,
                        counts=history.packed(counts),
                        figures=packed_figures(seen.figures.get(route, {})),
                        clients=seen.used(route),
                    )
                    for route, counts in seen.readings.items()
                ),
                ignore_conflicts=True,
            )
            for route, heartbeats in seen.heartbeats.items():
                _add_to_hour(route, heartbeats, now)
            LoadHour.objects.filter(route__gateway=row, hour__lt=hour_of(now - LOAD_KEPT)).delete()
            old = TrafficReading.objects.filter(minute__lt=history.minute_of(now - KEPT))
            old.filter(route__gateway=row).delete()
            _pack_hours(row, now)

        return proceed(save={"recorded_minute": minute, "counted_since": seen.since}, write=write)


def _processes(heartbeats: Iterable[LastHeartbeat]) -> Processes:
    return {
        one.process: ProcessCounts(
            one.deployment,
            ClientCounts(
                requests=one.requests,
                errors=one.errors,
                prompt_tokens=one.prompt_tokens,
                completion_tokens=one.completion_tokens,
            ),
        )
        for one in heartbeats
    }


def _counted_lengths(
    routes: Sequence[Route], heard: Mapping[str, Sequence[LastHeartbeat]]
) -> dict[int, Sequence[LastHeartbeat]]:
    return {
        route.pk: heard[route.service]
        for route in routes
        if any(one.prompt_lengths for one in heard.get(route.service, ()))
    }


def _add_to_hour(route: int, heartbeats: Sequence[LastHeartbeat], now: datetime) -> None:
    hour = hour_of(now)
    rows = {one.hour: one for one in LoadHour.objects.filter(route=route, hour__in=(hour - 1, hour))}
    if (row := rows.get(hour)) is None:
        before = rows.get(hour - 1)
        row = LoadHour(route_id=route, hour=hour, document=begun(before.document if before else {}))
    row.document = folded(row.document, heartbeats)
    row.save()


class GatewayReconciler(Reconciler[Gateway]):
    """Looks after its gateway for ever, each in a lane of its own: one that hangs delays no other."""

    model = Gateway
    max_attempts = None

    def lane_of(self, row: Gateway) -> str:
        return f"gateway:{row.cluster.name}"

    def host_of(self, row: Gateway) -> str:
        return row.host

    def on_silent_host(self, host: str) -> Mapping[str, Any]:
        return {"is_healthy": False, "detail": silent_hosts.why(host)}

    def next_step(self, row: Gateway, now: datetime) -> Step[Gateway] | None:
        if row.cluster.removed_at is not None:
            return None
        return RecordTraffic() if row.recorded_minute < history.minute_of(now) else KeepRoutes()


class RefreshTrafficCounts(Step[WatchedRoute]):
    """Read here what somebody watches elsewhere."""

    name = "tell traffic"

    def observe(self, row: WatchedRoute, operation: Operation) -> Mapping[str, Any]:
        try:
            return watching.answer(selectors.counts(row.route), clock.now())
        except GatewayError as error:
            return {"problem": str(error)}

    def settle(self, row: WatchedRoute, seen: Mapping[str, Any], now: datetime) -> StepOutcome:
        return wait(TELL_EVERY, save=seen)


class WatchedRouteReconciler(Reconciler[WatchedRoute]):
    """Reads while somebody watches, at the host of the gateway."""

    model = WatchedRoute
    max_attempts = None

    def rows(self) -> QuerySet[WatchedRoute]:
        return WatchedRoute.objects.select_related("route__gateway__cluster")

    def host_of(self, row: WatchedRoute) -> str:
        return row.route.gateway.host

    def lane_of(self, row: WatchedRoute) -> str:
        return f"gateway:{row.route.gateway.cluster.name}"

    def next_step(self, row: WatchedRoute, now: datetime) -> Step[WatchedRoute] | None:
        return RefreshTrafficCounts() if now < row.wanted_until else None


def _pack_hours(gateway: Gateway, now: datetime) -> None:
    """Put the minutes of hours that are old enough into one row each."""
    ended = history.minute_of(now - KEPT_APART) // 60 * 60
    apart = TrafficReading.objects.filter(route__gateway=gateway, earlier=None, minute__lt=ended)
    rows = list(apart.order_by("route", "minute")[:PACKED_AT_ONCE])
    for (route, hour), minutes in groupby(rows, lambda one: (one.route_id, one.minute // 60)):
        *before, last = minutes
        if last is rows[-1] and len(rows) == PACKED_AT_ONCE:
            break  # the rest of its hour is not read
        last.earlier = history.packed_hour(
            history.KeptReading(one.minute, one.at, one.counts, one.figures) for one in before
        )
        last.save(update_fields=["earlier"])
        TrafficReading.objects.filter(
            route=route, minute__gte=hour * 60, minute__lt=last.minute, earlier=None
        ).delete()


def _routes_of(gateway: Gateway) -> QuerySet[Route]:
    return Route.objects.filter(gateway=gateway).select_related("gateway__cluster")


def _until_next_minute(now: datetime) -> timedelta:
    return datetime.fromtimestamp((history.minute_of(now) + 1) * 60, tz=now.tzinfo) - now


def _sync_workers(route: Route) -> None:
    """Send the route's workers, in case the event of their change was lost."""
    for target in route.spec.targets:
        try:
            sync_workers(target.name)
        except DeploymentMissing:
            logger.info("Route %s names %s, which is no deployment", route.service, target.name)


def _is_kept(route: Route) -> bool:
    desired = None if route.removed_at else route.applied_spec
    present = backends_of(route.gateway).traffic.desired_route(route.service)
    return route.applied_at is not None and present == desired
