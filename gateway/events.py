from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RouteChanged:
    """What is desired of a service's traffic is something else now, or it was removed."""

    route_id: int
