"""What Slipway asks of whatever splits the traffic, in our words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from gateway.latency import Histogram

Side = Literal["stable", "canary"]
"""What a client may ask for with the header `x-release`."""


class Fence(NamedTuple):
    """Order of writers of one route: a later holder, or a later turn of the same holder, wins.

    `holder` is the id of the release (0: the service itself), `turn` its fence in the reconcile kernel.
    """

    holder: int
    turn: int


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Where one worker listens. `address` is an IP address: the gateway resolves no names."""

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

    @property
    def targets(self) -> tuple[Target, ...]:
        return (self.stable,) if self.candidate is None else (self.stable, self.candidate)


@dataclass(frozen=True, slots=True)
class TargetCounts:
    """Cumulative since `epoch`; a different epoch means that the counters started again from zero.

    Requests whose client forced the side with `x-release` are no random sample, so only the two `forced_`
    figures and `in_flight` know of them: everything else describes requests whose side the gateway chose by
    weight.
    """

    epoch: str
    routed: int
    """Requests sent to this target, counted as they arrive: the split, without waiting for slow answers."""
    requests: int
    """Requests that were answered, counted as their answer ends."""
    errors: int
    """Those of `requests` answered 500-599, by the worker or by the gateway for want of one, or cut off
    midway."""
    abandoned: int
    """Requests whose client went away before any answer; not in `requests`."""
    forced_requests: int
    forced_errors: int
    latency_ms: Histogram
    """From the first byte of the request to the last of the answer, of whole answers below 400. Up to a
    second behind the counters."""
    first_byte_ms: Histogram
    """The same to the first byte of the answer: time to first token, where the worker streams."""
    in_flight: int
    """Requests not ended yet, forced ones included."""


@dataclass(frozen=True, slots=True)
class ObservedSplit:
    """What was really routed between two readings, forced requests left out."""

    requests: Mapping[str, int]
    """Requests per target name, counted as they arrived."""

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

    def counts(self, route: str) -> Mapping[str, TargetCounts]:
        """Counts per target name, of the route's targets and of those that left it in the last ten minutes.

        Raises UnknownRoute, GatewayUnreachable.
        """

    def observed_weights(self, route: str, *, since: Mapping[str, TargetCounts]) -> ObservedSplit:
        """What was routed since an earlier reading of `counts`; since the gateway's start if that was later.

        Raises UnknownRoute, GatewayUnreachable.
        """

    def health(self) -> Health:
        """Whether the gateway answers and has taken the last configuration."""
