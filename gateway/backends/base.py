"""The interfaces of gateways and of counters of traffic, in our words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from common.fence import Fence
from gateway.client_access import ClientAccess, ClientReading
from gateway.routes import AbilitySpec, NamedService, RouteSpec, WorkerEndpoint
from gateway.traffic import TargetCounts


@dataclass(frozen=True, slots=True)
class GatewayHealth:
    ok: bool
    detail: str
    address: str = ""
    """Where the gateway itself says that clients reach it, as a URL; empty: it says nothing of that."""


@dataclass(frozen=True, slots=True)
class GatewayClass:
    """The class of a Gateway, and what it reports of itself."""

    name: str
    features: frozenset[str] | None
    """In `status.supportedFeatures`, without those that are assumed; None: it may not be read."""


class TrafficBackend(Protocol):
    """Sets, observes and removes routes. Every write is an absolute set and may be repeated; it returns when
    the gateway has taken it.

    GatewayUnreachable says that it has not yet: what is desired is kept, and is taken as soon as the gateway
    runs.
    """

    def set_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        """Make the route be `spec`, weights included, creating it if needed.

        Raises StaleRouteFence when a later writer was here; InvalidRoute, with nothing changed, when the
        gateway would refuse it; GatewayUnreachable, GatewayBusy.
        """

    def set_target(
        self, target: str, to: Sequence[WorkerEndpoint] | NamedService, *, observed_at: datetime
    ) -> None:
        """Replace where `target` is; an observation older than the last one applied is ignored.

        A worker that was left out gets no new request once this returns; those in flight on it run to their
        end. Raises InvalidEndpoint, also for a kind of place that this gateway cannot send to;
        GatewayUnreachable, GatewayBusy.
        """

    def set_abilities(self, specs: Sequence[AbilitySpec], *, observed_at: datetime) -> None:
        """Make these the addresses of abilities, and no others, unless what was observed later came before.
        Their workers are told by `set_target`, each with its slots and what it serves.

        Raises InvalidRoute where the gateway does not take one; GatewayUnreachable, GatewayBusy.
        """

    def remove_route(self, route: str, *, fence: Fence) -> None:
        """Stop routing; removing what is gone is no error. Raises StaleRouteFence, GatewayUnreachable,
        GatewayBusy."""

    def refresh(self) -> None:
        """Finish what a writer that died has begun, and remove what is no longer needed.

        Raises GatewayUnreachable, GatewayBusy.
        """

    def desired_route(self, route: str) -> RouteSpec | None:
        """The route as last set."""

    def ready(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        """Return the endpoints of `target` that the gateway itself finds ready; none while no route leads to
        it.

        Raises GatewayUnreachable.
        """

    def lacking(self) -> str:
        """Return in words what keeps it from ever having routes as releases need them, and what to do; empty:
        nothing. Raises GatewayUnreachable.
        """

    def cannot(self) -> Mapping[str, str]:
        """Return what steps of plans may ask of a gateway and this one cannot, with the reason in words:
        `mirror`, copies of all requests, and `mirror_percent`, of a share of them; `cohort_cookie`, requests
        chosen by a cookie, and `cohort_percent`, by a share of a header's values. Raises GatewayUnreachable.
        """

    def gateway_class(self) -> GatewayClass | None:
        """Return its class; None for a kind that has none. Raises GatewayUnreachable."""

    def health(self) -> GatewayHealth:
        """Whether the gateway answers and has taken the last configuration. Never raises."""


class TrafficMetrics(Protocol):
    """Counts what each version answered, wherever that is counted: by the gateway, or elsewhere."""

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        """Counts per target name, of the route's targets and of those that left it a short while ago.

        Between two readings of one `epoch` no figure falls. `taken_after`: a reading of half a second ago
        (two, where readings take long) will do, if it was begun after that moment; it may lack the time to
        first byte. Raises UnknownRoute, GatewayUnreachable.
        """


class AccessBackend(Protocol):
    """Checks and limits keys of clients."""

    def set_access(self, access: ClientAccess, *, observed_at: datetime) -> None:
        """Make these the keys, and the services that demand one; what was observed before the last is late
        and ignored. Connections stay. Raises InvalidRoute, GatewayUnreachable, GatewayBusy.
        """


class ClientMetrics(Protocol):
    """Counts requests and tokens by key."""

    def clients(self) -> ClientReading:
        """Raises GatewayUnreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRowConfig:
    """Settings of a gateway's row."""

    cluster: str
    """Its name."""
    settings: Mapping[str, Any]
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBackend:
    """The backend of a `GatewayRowConfig`; the `from_config` of its kind's module raises InvalidGateway."""

    traffic: TrafficBackend
    metrics: TrafficMetrics | None
    """What the gateway itself counts; None: it cannot be asked for it."""
    public_url: str
    """Where clients reach it, without a slash at its end."""
    cannot_count: Mapping[str, str] = field(default_factory=dict)
    """As `TrafficBackend.cannot`: what would make its counts wrong."""
    access: AccessBackend | None = None
    """None: it knows no keys, and answers to everybody who reaches it."""
    clients: ClientMetrics | None = None
    """None: it does not count by key, nor tokens."""
    occupies: frozenset[str] = frozenset()
    """Ports and the like that no other gateway may have, in words."""
