"""Keeps the gateway to its routes: applies what it could not take, and what it has lost with its home.

And keeps what it counted, a reading a minute: charts do not begin when somebody opens a page.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django.db.models import Q

from clusters.errors import DeploymentMissing
from common.reconcile import Effect, Operation, Outcome, Recurring, wait
from gateway import history, selectors, services
from gateway.backends import backend
from gateway.backends.base import Health
from gateway.errors import GatewayError, StaleFence
from gateway.models import Recorder, Route, TrafficReading, Watch

logger = logging.getLogger(__name__)

RETRY_AFTER = timedelta(seconds=2)
AT_MOST_SECONDS = 8.0
"""After this long the rest waits for the next look: a task has 20 s."""
KEPT = timedelta(hours=24, minutes=5)
"""How long readings of the traffic stay: a little more than the longest that a page shows."""


class KeepGateway(Recurring[Watch]):
    """Set every route that the gateway does not have as its row says. Never raises for the gateway's sake."""

    model = Watch
    name = "keep routes"
    every = timedelta(seconds=15)
    effect = Effect.ABSOLUTE

    def act(self, row: Watch, operation: Operation) -> Mapping[str, Any]:
        until = monotonic() + AT_MOST_SECONDS
        applied: list[str] = []
        for route in Route.objects.filter(Q(removed_at__isnull=True) | Q(applied_at__isnull=True)):
            if monotonic() > until:
                break
            try:
                if route.removed_at is None:
                    _sync_workers(route)
                if not _is_kept(route):
                    services.reapply(route)
                    applied.append(route.service)
            except StaleFence as error:
                logger.info("%s", error)
            except GatewayError as error:
                logger.warning("Route %s: %s", route.service, error)
        try:
            backend().refresh()
        except GatewayError as error:
            logger.warning("The gateway cannot be refreshed: %s", error)
        return {"applied": applied}

    def observe(self, row: Watch, operation: Operation) -> tuple[Health, bool]:
        """The gateway's health, and whether every route is as it should be."""
        return backend().health(), not Route.objects.filter(applied_at__isnull=True).exists()

    def settle(self, row: Watch, seen: tuple[Health, bool], now: datetime) -> Outcome:
        health, is_settled = seen
        calm = health.ok and is_settled
        return wait(
            self.every if calm else RETRY_AFTER,
            save={"seen_at": now, "is_healthy": health.ok, "detail": health.detail},
        )


class KeepTraffic(Recurring[Recorder]):
    """Never raises for the gateway's sake: what cannot be read is a gap."""

    model = Recorder
    name = "record traffic"

    def observe(self, row: Recorder, operation: Operation) -> Mapping[int, Mapping[str, Any]]:
        until = monotonic() + AT_MOST_SECONDS
        routes = list(selectors.routes())
        begin = history.minute_of(operation.at) % len(routes) if routes else 0
        found: dict[int, Mapping[str, Any]] = {}
        for route in routes[begin:] + routes[:begin]:
            if monotonic() > until:
                break
            try:
                found[route.pk] = history.packed(selectors.counts(route))
            except GatewayError as error:
                logger.info("The traffic of %s is not recorded: %s", route.service, error)
        return found

    def settle(self, row: Recorder, seen: Mapping[int, Mapping[str, Any]], now: datetime) -> Outcome:
        minute = history.minute_of(now)

        def write() -> None:
            TrafficReading.objects.bulk_create(
                (
                    TrafficReading(route_id=route, minute=minute, at=now, counts=counts)
                    for route, counts in seen.items()
                ),
                ignore_conflicts=True,
            )
            TrafficReading.objects.filter(minute__lt=history.minute_of(now - KEPT)).delete()

        next_minute = datetime.fromtimestamp((minute + 1) * 60, tz=now.tzinfo)
        return wait(next_minute - now, write=write)


def _sync_workers(route: Route) -> None:
    """What the event of their change may have failed to tell."""
    for target in route.spec.targets:
        try:
            services.sync_workers(target.name)
        except DeploymentMissing:
            logger.info("Route %s names %s, which is no deployment", route.service, target.name)


def _is_kept(route: Route) -> bool:
    wished = None if route.removed_at else route.spec
    return route.applied_at is not None and backend().wished_route(route.service) == wished
