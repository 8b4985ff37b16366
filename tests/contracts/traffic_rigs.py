"""A fake gateway, a real Envoy, and HTTPRoutes of a fake cluster, each with its workers and its clients."""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from common.fence import Fence
from gateway.backends.base import TrafficBackend, TrafficMetrics
from gateway.backends.fake import Behaviour, FakeGateway
from gateway.backends.worker_counters import WorkerReading, summed
from gateway.errors import GatewayUnreachable, UnknownRoute
from gateway.latency import BOUNDS_MS
from gateway.routes import Cohort, RouteSpec, RouteTarget, Side, WorkerEndpoint
from gateway.traffic import TargetCounts
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.load import LoadAnswer, LoadClient
from tests.gateway.gateway_api.worlds import Cluster, DataPlane
from tests.patience import eventually

OPEN = partial(RouteSpec, "chat", release_header="open")
BETA = Cohort(header="x-cohort", value="beta")


class World(Protocol):
    """A backend, its workers and its clients."""

    gateway: TrafficBackend
    metrics: TrafficMetrics

    def run_workers(self, target: RouteTarget) -> None: ...
    def send(
        self,
        requests: int,
        *,
        release: Side | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, int]:
        """Return the answers by version; a request for an unknown service raises UnknownRoute."""

    def break_workers(self, target: RouteTarget) -> None:
        """Make the workers answer 500 from now on."""

    def stop(self) -> None: ...
    def start(self) -> None: ...

    unlike: Mapping[str, str]
    """Tests of what this kind of gateway does otherwise, and why."""


def with_release(headers: Mapping[str, str] | None, release: Side | None, key: str) -> dict[str, str]:
    """Return the headers of a client that chooses a version, with the key that the choice may need."""
    chosen = {"x-release": release or "", "x-release-key": key}
    return dict(headers or {}) | {name: value for name, value in chosen.items() if value}


class FakeWorld:
    unlike: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.gateway = self.metrics = FakeGateway(seed=7)
        self.stop, self.start = self.gateway.stop, self.gateway.start

    def run_workers(self, target: RouteTarget) -> None:
        self.gateway.set_target(
            target.name, [WorkerEndpoint("10.0.0.1", 8000)], observed_at=datetime.now(UTC)
        )

    def send(
        self,
        requests: int,
        *,
        release: Side | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, int]:
        spec = self.gateway.desired_route("chat")
        versions = {target.name: target.version for target in spec.targets} if spec else {}
        sent = self.gateway.send("chat", requests, release=release, key=key, headers=headers)
        return {versions[name]: count for name, count in sent.items()}

    def break_workers(self, target: RouteTarget) -> None:
        self.gateway.behave(target.name, Behaviour(error_share=1.0))


class EnvoyWorld:
    unlike: Mapping[str, str] = {}

    def __init__(self, home: Path) -> None:
        self.stack = EnvoyStack(home)
        self.gateway, self.metrics = self.stack.gateway, self.stack.metrics
        self.stop, self.start = self.stack.kill, self.stack.start

    def run_workers(self, target: RouteTarget) -> None:
        self.stack.run_workers(target)
        if target.name in self.gateway._store.load().clusters:
            eventually(lambda: bool(self.gateway.ready(target.name)))

    def send(
        self,
        requests: int,
        *,
        release: Side | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, int]:

        asked_with = with_release(headers, release, key)

        async def ask() -> list[LoadAnswer]:
            client = LoadClient(self.stack.layout.port)
            try:
                return [await client.get("/chat/v1", asked_with) for _ in range(requests)]
            finally:
                client.close()

        versions: dict[str, int] = {}
        for answer in asyncio.run(ask()):
            if answer.status == 404:
                raise UnknownRoute
            versions[answer.version] = versions.get(answer.version, 0) + 1
        return versions

    def arrived_at(self, target: RouteTarget) -> int:
        """Requests that its workers have had, copies among them."""
        return sum(int(worker.get("/served")) for worker in self.stack.workers[target.name])

    def break_workers(self, target: RouteTarget) -> None:
        async def tell(port: int) -> None:
            client = LoadClient(port)
            await client.get("/set?broken=1")
            client.close()

        for worker in self.stack.workers[target.name]:
            asyncio.run(tell(worker.port))


class GatewayApiWorld:
    """A controller that programs routes, a data plane that follows them, and workers that count themselves.

    What only a real data plane can show, that it follows them, is the part of this world that is made up.
    """

    unlike: Mapping[str, str] = {
        "test_a_target_without_workers_errs_and_says_its_version": "nobody is there to count or to say it",
        "test_a_share_of_a_headers_values_is_the_same_each_time": "HTTPRoutes cannot say so",
        "test_an_observation_older_than_the_last_is_ignored": "a Service follows its pods by itself",
    }

    def __init__(self) -> None:
        self.cluster = Cluster()
        for target in (STABLE, CANARY):
            self.cluster.run_service(target.name, pods=0)
        self.gateway, self.metrics = self.cluster.gateway, self
        self._plane = DataPlane(self.cluster.controller)
        self._versions: dict[str, str] = {}
        self._broken: set[str] = set()
        self._is_up = True
        self._starts = 0
        self._begin()

    def _begin(self) -> None:
        self._starts += 1
        self._began = datetime.now(UTC)
        self._numbers: dict[str, dict[tuple[str, str], float]] = {}

    def run_workers(self, target: RouteTarget) -> None:
        self.cluster.run_service(target.name)
        self._versions[target.name] = target.version

    def send(
        self,
        requests: int,
        *,
        release: Side | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, int]:
        asked_with = with_release(headers, release, key)
        sent: dict[str, int] = {}
        for _ in range(requests):
            found = self._plane.ask("/chat/v1/completions", asked_with)
            if found is None:
                raise UnknownRoute
            target, path, told = found
            assert path == "/v1/completions"
            assert "x-release-key" not in told
            self._count(target, "client" if told.get("x-slipway-chosen-by") == "client" else "gateway")
            version = self._versions[target]
            sent[version] = sent.get(version, 0) + 1
        return sent

    def _count(self, target: str, chosen_by: str) -> None:
        numbers = self._numbers.setdefault(target, {})
        events = ["routed", "ended", *(["errors"] if target in self._broken else [])]
        for event in events:
            name = ("slipway_worker_traffic_total", f"chosen_by={chosen_by},event={event}")
            numbers[name] = numbers.get(name, 0) + 1
        if chosen_by == "gateway" and target not in self._broken:
            bounds = [f"le={bound / 1000}" for bound in BOUNDS_MS[bisect_left(BOUNDS_MS, 50.0) :]]
            for which in ("answer_seconds", "answer_first_token_seconds"):
                for bound in (*bounds, "le=+Inf"):
                    bucket = (f"slipway_worker_{which}_bucket", bound)
                    numbers[bucket] = numbers.get(bucket, 0) + 1

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        if not self._is_up:
            raise GatewayUnreachable("Nobody answers.")
        spec = self.gateway.desired_route(route)
        if spec is None:
            raise UnknownRoute(route)
        names = {target.name for target in spec.targets} | set(self._numbers)
        return {
            name: summed([WorkerReading(f"{name}@{self._starts}", self._began, self._numbers.get(name, {}))])
            for name in names
        }

    def break_workers(self, target: RouteTarget) -> None:
        self._broken.add(target.name)

    def stop(self) -> None:
        self._is_up = self.cluster.controller.runs = False
        self.cluster.say_programmed("False")

    def start(self) -> None:
        self._is_up = self.cluster.controller.runs = True
        self._begin()
        self.cluster.say_programmed("True")
        for _ in range(3):
            self.cluster.controller.tick()


def released(world: World, percent: int, *, turn: int = 1) -> World:
    for target in (STABLE, CANARY):
        world.run_workers(target)
    world.gateway.set_route(OPEN(STABLE, CANARY, percent), fence=Fence(1, turn))
    eventually(lambda: all(world.gateway.ready(target.name) for target in (STABLE, CANARY)))
    return world


def reweigh(world: World, percent: int, fence: Fence) -> None:
    before = world.gateway.desired_route("chat")
    assert before
    world.gateway.set_route(replace(before, candidate_percent=percent), fence=fence)
