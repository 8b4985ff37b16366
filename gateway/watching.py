"""Traffic that is watched from another host than the gateway's: asked for by a row, and told in it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from common import clock
from common.reconcile import kernel, silent_hosts
from common.reconcile.pulses import living_hosts
from gateway.backends.configured import is_elsewhere
from gateway.errors import CountsPending, GatewayUnreachable
from gateway.history import packed, unpacked
from gateway.models import Route, WatchedRoute
from gateway.selectors import counts
from gateway.traffic import CountsReading, TargetCounts

WANTED_FOR = timedelta(seconds=30)
"""Who watches says so again when half of it has passed; then the host goes on for so long at most."""
STALE_AFTER = timedelta(seconds=10)
"""Its host reads once a second: what is older tells nothing about now."""


def watched(route: Route) -> CountsReading:
    """Return the route's counts, read now, or lately by the gateway's own host.

    Raises UnknownRoute, NoGateway, GatewayUnreachable; CountsPending when the host has just been asked.
    """
    if not is_elsewhere(route.gateway):
        return CountsReading(counts(route))
    row, now = _asked(route), clock.now()
    if row.counts is not None and row.counted_at is not None and now - row.counted_at <= STALE_AFTER:
        age, found = now - row.counted_at, unpacked(row.counts)
        flying = {name: replace(one, in_flight=row.in_flight.get(name, 0)) for name, one in found.items()}
        return CountsReading(flying, max(age.total_seconds(), 0.0), route.gateway.host)
    if row.problem:
        raise GatewayUnreachable(row.problem)
    if route.gateway.host not in living_hosts():
        raise GatewayUnreachable(silent_hosts.why(route.gateway.host))
    raise CountsPending(_("The host %(host)s is asked for it.") % {"host": route.gateway.host})


def _asked(route: Route) -> WatchedRoute:
    """Its host reads, from now on for a while."""
    now = clock.now()
    row, is_new = WatchedRoute.objects.get_or_create(
        route=route, defaults={"wanted_until": now + WANTED_FOR, "lane_host": route.gateway.host}
    )
    if is_new or row.wanted_until - now < WANTED_FOR / 2:
        kernel.wake(row, wanted_until=now + WANTED_FOR)
    return row


def answer(told: Mapping[str, TargetCounts], now: datetime) -> dict[str, Any]:
    """The columns of a row that tell this."""
    in_flight = {name: one.in_flight for name, one in told.items()}
    return {"counts": packed(told), "in_flight": in_flight, "counted_at": now, "problem": ""}
