"""Keeps the gateway to its routes: applies what it could not take, and what it has lost with its home."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, ClassVar

from django.db.models import Q

from clusters.errors import DeploymentMissing
from common.reconcile import Effect, Operation, Outcome, Reconciler, Step, wait
from gateway import services
from gateway.backends import backend
from gateway.backends.base import Health
from gateway.errors import GatewayError, StaleFence
from gateway.models import Route, Watch

logger = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=15)
RETRY_AFTER = timedelta(seconds=2)
AT_MOST_SECONDS = 8.0
"""After this long the rest waits for the next look: a task has 20 s."""


class KeepRoutes(Step[Watch]):
    """Set every route that the gateway does not have as its row says. Never raises for the gateway's sake."""

    name = "keep routes"
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
            LOOK_EVERY if calm else RETRY_AFTER,
            save={"seen_at": now, "is_healthy": health.ok, "detail": health.detail},
        )


class KeepGateway(Reconciler[Watch]):
    kind = "gateway"
    model = Watch
    max_attempts: ClassVar[int] = 30_000
    """A watch does not give up: at a minute each these are three weeks."""

    def next_step(self, row: Watch, now: datetime) -> Step[Watch]:
        return KeepRoutes()


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
