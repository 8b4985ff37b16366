from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RouteChanged:
    """The desired traffic of a service has changed, or its route was removed."""

    route_id: int
