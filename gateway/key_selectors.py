"""Reads of keys of clients, of the services that they open, and of what gateways count by key."""

import logging
from collections.abc import Iterable

from clusters.models import Deployment
from common.actor import Actor
from gateway.backends.configured import backends_of
from gateway.client_access import ClientReading
from gateway.errors import GatewayError
from gateway.models import Gateway, Route
from gateway.selectors import routes

logger = logging.getLogger(__name__)


def client_counts(gateway: Gateway) -> ClientReading | None:
    """Return requests and tokens by key; None: its kind does not count so, or does not answer."""
    if (clients := backends_of(gateway).clients) is None:
        return None
    try:
        return clients.clients()
    except GatewayError as error:
        logger.info("The requests by key at %s are not counted: %s", gateway, error)
        return None


def routes_of_services(actor: Actor) -> list[Route]:
    """Return the routes of the services that the actor may see."""
    names = Deployment.objects.all().for_actor(actor).values("name")
    return list(routes().filter(stable_target__in=names))


def teams_of_routes(rows: Iterable[Route]) -> dict[str, int]:
    """Return the ids of the teams whose services those are, by service."""
    targets = {row.stable_target: row.service for row in rows}
    found = Deployment.objects.filter(name__in=list(targets)).values_list("name", "team_id")
    return {targets[name]: team for name, team in found}


def access_of(service: str) -> Route | None:
    """Return the route that says whether the service demands a key; None: none leads there."""
    return routes().filter(service=service).first()
