"""What Slipway asks of whatever splits the traffic, in our words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gateway.routes import Endpoint, Fence, RouteSpec, Side, Target
from gateway.traffic import TargetCounts

__all__ = [
    "Endpoint",
    "Fence",
    "Health",
    "RouteSpec",
    "Side",
    "Target",
    "TargetCounts",
    "TrafficBackend",
]


@dataclass(frozen=True, slots=True)
class Health:
    ok: bool
    detail: str


class TrafficBackend(Protocol):
    """Every write is an absolute set and may be repeated; it returns when the gateway has taken it.

    GatewayUnreachable says that it has not yet: the wish is kept, and is taken as soon as the gateway runs.
    """

    def apply_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        """Make the route be `spec`, creating it if needed.

        Raises StaleFence when a later writer was here; InvalidRoute, with nothing changed, when the gateway
        would refuse it; GatewayUnreachable, GatewayBusy.
        """

    def set_weights(self, route: str, *, candidate_percent: int, fence: Fence) -> None:
        """Make the candidate's share be `candidate_percent`. Raises as `apply_route`, and UnknownRoute."""

    def set_endpoints(self, target: str, endpoints: Sequence[Endpoint], *, observed_at: datetime) -> None:
        """Replace the workers of `target`; an observation older than the last one applied is ignored.

        A worker that was left out gets no new request once this returns; those in flight on it run to their
        end. Raises InvalidEndpoint, GatewayUnreachable, GatewayBusy.
        """

    def remove_route(self, route: str, *, fence: Fence) -> None:
        """Stop routing; removing what is gone is no error. Raises StaleFence, GatewayUnreachable,
        GatewayBusy."""

    def refresh(self) -> None:
        """Finish what a writer that died has begun, and let go of what is no longer needed.

        Raises GatewayUnreachable, GatewayBusy.
        """

    def wished_route(self, route: str) -> RouteSpec | None:
        """The route as last applied."""

    def ready_endpoints(self, target: str) -> frozenset[Endpoint]:
        """Workers of `target` that the gateway itself finds ready now; none while no route leads to the
        target.

        Raises GatewayUnreachable.
        """

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        """Counts per target name, of the route's targets and of those that left it in the last ten minutes.

        `taken_after`: a reading of half a second ago (two, where readings take long) will do, if it was begun
        after that moment; it may lack the time to first byte.
        Raises UnknownRoute, GatewayUnreachable.
        """

    def health(self) -> Health:
        """Whether the gateway answers and has taken the last configuration."""
