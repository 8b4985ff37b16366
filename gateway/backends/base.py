"""What Slipway asks of whatever splits the traffic, in our words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol


class Fence(NamedTuple):
    """Order of writers of one route: a later holder, or a later turn of the same holder, wins.

    `holder` is the id of the release (0: the service itself), `turn` its fence in the reconcile kernel.
    """

    holder: int
    turn: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Target:
    """One deployment that may receive traffic. `version` is sent back as `x-slipway-version`."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A service's route: `/<name>/...` with the prefix removed."""

    name: str
    stable: Target
    candidate: Target | None
    candidate_percent: int
    """Whole percent of unforced requests, 0..100, that the candidate gets; 0 without a candidate."""


@dataclass(frozen=True, slots=True)
class TargetCounts:
    """Cumulative since `epoch`; a different epoch means that the counters started again from zero."""

    epoch: str
    requests: int
    """Answered requests whose side the gateway chose by weight."""
    forced_requests: int
    """Answered requests whose client forced the side with `x-release`."""
    errors: int
    """Answers 500-599, forced ones included, also those that the gateway gave for want of a worker."""
    latency_ms: tuple[tuple[float, int], ...]
    """Cumulative histogram: (upper bound in ms, requests at or below it), ascending, last bound infinity."""
    in_flight: int


@dataclass(frozen=True, slots=True)
class ObservedSplit:
    """What was really routed between two readings, forced requests left out."""

    requests: Mapping[str, int]
    """Requests per target name."""

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    def percent(self, target: str) -> float | None:
        """Share of `target` in percent, or None when nothing was routed."""
        return 100 * self.requests.get(target, 0) / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Health:
    ok: bool
    detail: str


class TrafficBackend(Protocol):
    def apply_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        """Make the route be `spec`, creating it if needed (absolute set).

        Raises StaleFence when a later writer was here; InvalidRoute when the gateway would refuse it.
        """

    def set_weights(self, route: str, *, candidate_percent: int, fence: Fence) -> None:
        """Set the candidate share to `candidate_percent`, absolutely. Raises StaleFence, UnknownRoute."""

    def set_endpoints(self, target: str, endpoints: Sequence[Endpoint], *, observed_at: datetime) -> None:
        """Replace the workers of `target`; an observation older than the last one applied is ignored."""

    def remove_route(self, route: str, *, fence: Fence) -> None:
        """Stop routing; removing what is gone is no error. Raises StaleFence."""

    def wished_route(self, route: str) -> RouteSpec | None:
        """The route as last applied."""

    def counts(self, route: str) -> Mapping[str, TargetCounts]:
        """Counts per target name of the route, as the gateway measured them. Raises GatewayUnreachable."""

    def observed_weights(self, route: str, *, since: Mapping[str, TargetCounts]) -> ObservedSplit:
        """What was routed since an earlier reading of `counts`. Raises GatewayUnreachable."""

    def health(self) -> Health:
        """Whether the gateway answers and has taken the last configuration."""
