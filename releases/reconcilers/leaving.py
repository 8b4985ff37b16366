"""Workers end when the gateway has let go of them: not before, and not much later either."""

from datetime import datetime, timedelta

from gateway import selectors as gateway
from gateway.errors import UnknownRoute

LEAVES_WITHIN = timedelta(seconds=60)
"""A gateway that took no order for so long keeps nobody's GPUs: its own health checks find them gone."""


def gateway_has_left(service: str, *, since: datetime | None, now: datetime) -> bool:
    """Whether the gateway carries out the route as it is wished for now, which names what is to stay.
    `since`: when it was told to; None: not known."""
    try:
        route = gateway.route(service)
    except UnknownRoute:
        return True
    return route.applied_at is not None or since is None or now - since >= LEAVES_WITHIN
