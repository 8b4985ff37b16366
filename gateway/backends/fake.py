"""A gateway in memory, with traffic that is simulated: the same numbers for the same seed."""

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate

from django.conf import settings

from common.fence import Fence
from gateway.backends import checks
from gateway.backends.base import GatewayBackend, GatewayClass, GatewayHealth, GatewayRowConfig
from gateway.backends.envoy.client_access import filter_messages
from gateway.backends.state import GatewayState
from gateway.client_access import ClientAccess, ClientCounts, ClientReading
from gateway.cohorts import is_of
from gateway.errors import GatewayUnreachable, UnknownRoute
from gateway.latency import BOUNDS_MS, Histogram
from gateway.routes import (
    AbilitySpec,
    NamedService,
    RouteSpec,
    RouteTarget,
    Side,
    WorkerEndpoint,
)
from gateway.traffic import TargetCounts

Place = Sequence[WorkerEndpoint] | NamedService
_BOUNDS = (*BOUNDS_MS, math.inf)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Answers of a target's workers. Latencies are log-normal about `median_ms`."""

    error_share: float = 0.0
    broken_share: float = 0.0
    """Of the errors: cut off midway, not answered 500."""
    median_ms: float = 50.0
    spread: float = 0.3
    """Standard deviation of the latency's natural logarithm."""
    first_byte_share: float = 0.2
    """Part of the latency that passes until the answer begins."""


@dataclass(slots=True)
class _Tally:
    routed: int = 0
    requests: int = 0
    errors: int = 0
    broken: int = 0
    abandoned: int = 0
    forced_requests: int = 0
    forced_errors: int = 0
    latency: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    first_byte: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))


class FakeGateway:
    """A `TrafficBackend` and a `TrafficMetrics`. `send` is its clients, `behave` its workers, `stop`, `start`
    and `restart` its process."""

    def __init__(self, *, seed: int = 0, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311
        self._state = GatewayState()
        self._observed: dict[str, tuple[datetime, Place]] = {}
        self._behaviours: dict[str, Behaviour] = {}
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._starts = 1
        self._started_at = clock()
        self._runs = True
        self.lacks = ""
        self.unable: dict[str, str] = {}
        """What it cannot, by name, with the reason."""
        self.access = ClientAccess()
        self.client_counts: dict[tuple[str, str], ClientCounts] = {}
        """What it has counted by target and key; whoever plays the clients says it."""
        self.config: GatewayRowConfig | None = None
        """What its row says, where it was made from one."""

    # What the world does to it.

    def behave(self, target: str, behaviour: Behaviour) -> None:
        self._behaviours[target] = behaviour

    def send(
        self,
        route: str,
        requests: int,
        *,
        release: Side | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        abandon: bool = False,
    ) -> Mapping[str, int]:
        """Send requests; returns how many went to which target. `release` and `key` are the headers that
        choose a side, `headers` others; `abandon`: the clients do not wait for answers.

        Raises GatewayUnreachable; UnknownRoute for what a client would see as 404.
        """
        self._must_run()
        spec = self._spec(route)
        is_known = spec.release_header == "secret" and spec.release_key == key != ""
        if not (is_known or spec.release_header == "open"):
            release = None
        sent: dict[str, int] = {}
        for _ in range(requests):
            target, is_forced = self._choose(spec, release, headers or {})
            sent[target.name] = sent.get(target.name, 0) + 1
            self._answer(route, target.name, is_forced=is_forced, abandon=abandon)
        return sent

    def set_access(self, access: ClientAccess, *, observed_at: datetime) -> None:
        filter_messages(access)
        self._must_run()
        self.access = access

    def clients(self) -> ClientReading:
        self._must_run()
        return ClientReading(str(self._starts), dict(self.client_counts))

    def stop(self) -> None:
        self._runs = False

    def start(self) -> None:
        """Start again: the configuration is found, the counters begin at zero."""
        self._runs = True
        self._starts += 1
        self._started_at = self._clock()
        self._tallies.clear()

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def abilities(self) -> Mapping[str, AbilitySpec]:
        return self._state.abilities

    def endpoints(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        """Return where it was told that the target is."""
        return self._place_of(target)

    # What Slipway asks of it.

    def set_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        checks.check_spec(spec)
        self._refuse_stale(spec.name, fence)
        self._state = self._state.with_route(spec, fence=fence, now=self._clock())
        self._must_run()

    def set_target(self, target: str, to: Place, *, observed_at: datetime) -> None:
        place = checks.check_place(target, to, observed_at=observed_at)
        last = self._observed.get(target)
        if last is None or observed_at >= last[0]:
            self._observed[target] = (observed_at, place)
        self._must_run()

    def set_abilities(self, specs: Sequence[AbilitySpec], *, observed_at: datetime) -> None:
        checks.check_abilities(specs, observed_at=observed_at)
        if observed_at >= self._state.abilities_at:
            self._state = self._state.with_abilities(specs, observed_at=observed_at, now=self._clock())
        self._must_run()

    def remove_route(self, route: str, *, fence: Fence) -> None:
        self._refuse_stale(route, fence)
        if route in self._state.routes:
            self._state = self._state.without_route(route, fence=fence, now=self._clock())
        elif route in self._state.fences:
            self._state = self._state.with_fence(route, fence)
        self._must_run()

    def refresh(self) -> None:
        self._state = self._state.pruned(self._clock())
        self._must_run()

    def desired_route(self, route: str) -> RouteSpec | None:
        return self._state.routes.get(route)

    def ready(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        self._must_run()
        return self._reachable(target) if target in self._state.clusters else frozenset()

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        self._must_run()
        self._spec(route)
        return {name: self._counts(route, name) for name in self._state.targets_of(route)}

    def cannot(self) -> Mapping[str, str]:
        self._must_run()
        return dict(self.unable)

    def lacking(self) -> str:
        return self.lacks

    def gateway_class(self) -> GatewayClass | None:
        return None

    def health(self) -> GatewayHealth:
        return GatewayHealth(
            self._runs, "The fake gateway runs." if self._runs else "The fake gateway is stopped."
        )

    def _must_run(self) -> None:
        if not self._runs:
            raise GatewayUnreachable("The fake gateway is stopped.")

    def _refuse_stale(self, route: str, fence: Fence) -> None:
        checks.refuse_stale(route, last=self._state.fences.get(route), fence=fence)

    def _spec(self, route: str) -> RouteSpec:
        spec = self._state.routes.get(route)
        if spec is None:
            raise UnknownRoute(f"The gateway has no route {route}.")
        return spec

    def _reachable(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        return frozenset(
            one for one in self._place_of(target) if isinstance(one, NamedService) or not one.is_spare
        )

    def _place_of(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        _, place = self._observed.get(target, (None, ()))
        return frozenset({place}) if isinstance(place, NamedService) else frozenset(place)

    def _choose(
        self, spec: RouteSpec, release: Side | None, headers: Mapping[str, str]
    ) -> tuple[RouteTarget, bool]:
        if release == "stable":
            return spec.stable, True
        if release == "canary" and spec.candidate is not None:
            return spec.candidate, True
        if spec.cohort is not None and spec.candidate is not None:
            is_of_it = is_of(spec.cohort, headers)
            if is_of_it is not None:
                return spec.candidate if is_of_it else spec.stable, True
        if spec.candidate is not None and self._random.random() * 100 < spec.candidate_percent:
            return spec.candidate, False
        return spec.stable, False

    def _answer(self, route: str, target: str, *, is_forced: bool, abandon: bool) -> None:
        tally = self._tallies.setdefault((route, target), _Tally())
        behaviour = self._behaviours.get(target, Behaviour())
        failed = not self._reachable(target) or self._random.random() < behaviour.error_share
        milliseconds = self._random.lognormvariate(math.log(behaviour.median_ms), behaviour.spread)
        if is_forced:
            tally.forced_requests += not abandon
            tally.forced_errors += failed and not abandon
            return
        tally.routed += 1
        if abandon:
            tally.abandoned += 1
            return
        tally.requests += 1
        if failed:
            tally.errors += 1
            tally.broken += bool(behaviour.broken_share) and self._random.random() < behaviour.broken_share
            return
        tally.latency[bisect_left(_BOUNDS, milliseconds)] += 1
        tally.first_byte[bisect_left(_BOUNDS, milliseconds * behaviour.first_byte_share)] += 1

    def _counts(self, route: str, target: str) -> TargetCounts:
        tally = self._tallies.get((route, target), _Tally())
        return TargetCounts(
            epoch=f"start {self._starts}",
            since=self._started_at,
            routed=tally.routed,
            requests=tally.requests,
            errors=tally.errors,
            broken=tally.broken,
            abandoned=tally.abandoned,
            forced_requests=tally.forced_requests,
            forced_errors=tally.forced_errors,
            latency_ms=_cumulative(tally.latency),
            first_byte_ms=_cumulative(tally.first_byte),
            in_flight=0,
        )


def _cumulative(buckets: list[int]) -> Histogram:
    return tuple(zip(_BOUNDS, accumulate(buckets), strict=True))


def from_config(config: GatewayRowConfig) -> GatewayBackend:
    fake = FakeGateway()
    fake.config = config
    return GatewayBackend(
        traffic=fake, metrics=fake, access=fake, clients=fake, public_url=settings.SLIPWAY_GATEWAY_URL
    )
