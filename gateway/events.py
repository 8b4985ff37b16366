from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RouteChanged:
    """The wish for a service's traffic is another one, or it was removed."""

    route_id: int
