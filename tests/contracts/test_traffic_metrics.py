"""The contract of all counters: the fake, Envoy's numbers, the workers', and Prometheus' of them."""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import httpx2
import pytest

from common.fence import Fence
from gateway.backends.base import TrafficMetrics
from gateway.backends.fake import FakeGateway
from gateway.backends.prometheus import PrometheusCounters, PrometheusSettings
from gateway.backends.worker_counters import WorkerCounters
from gateway.errors import GatewayUnreachable, UnknownRoute
from gateway.latency import BOUNDS_MS, total
from gateway.routes import RouteSpec, WorkerEndpoint
from gateway.traffic import TargetCounts
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from tests.gateway.prometheus_server import Prometheus, serving
from tests.patience import eventually
from tests.serving.workers import RunningWorker, running

ROUTE = RouteSpec("chat", STABLE, CANARY, 100, release_header="open")
BODY = {"model": "chat", "prompt": "Hello", "max_tokens": 2}


class World(Protocol):
    """All requests go to the canary."""

    metrics: TrafficMetrics

    def send(self, requests: int, *, is_forced: bool = False) -> None: ...

    def restart(self) -> None:
        """Whatever counts starts again."""

    def stop(self) -> None:
        """Whatever counts."""


class FakeWorld:
    def __init__(self) -> None:
        self.metrics = self.gateway = FakeGateway(seed=7)
        self.gateway.set_route(ROUTE, fence=Fence(1, 1))
        self.gateway.set_target(CANARY.name, [WorkerEndpoint("10.0.0.1", 80)], observed_at=datetime.now(UTC))
        self.restart, self.stop = self.gateway.restart, self.gateway.stop

    def send(self, requests: int, *, is_forced: bool = False) -> None:
        self.gateway.send("chat", requests, release="canary" if is_forced else None)


class EnvoyWorld:
    """A real worker behind a real Envoy."""

    def __init__(self, home: Path, cleanup: ExitStack) -> None:
        self.home, self._cleanup = home, cleanup
        self.stack = EnvoyStack(home)
        self.metrics: TrafficMetrics = self.stack.metrics
        cleanup.callback(self.stack.stop)
        self.stack.start()
        self.stack.gateway.set_route(ROUTE, fence=Fence(1, 1))
        self.start_worker()

    def start_worker(self) -> None:
        worker = running(self.home / "worker.log", engine="echo", service="chat", host="127.0.0.1")
        self.worker: RunningWorker = self._cleanup.enter_context(worker)
        self.worker.until_ready()
        endpoints = [WorkerEndpoint("127.0.0.1", self.worker.port)]
        self.stack.gateway.set_target(CANARY.name, endpoints, observed_at=datetime.now(UTC))
        eventually(lambda: bool(self.stack.gateway.ready(CANARY.name)))

    def send(self, requests: int, *, is_forced: bool = False) -> None:
        # What only the gateway may say changes nothing when a client says it.
        headers = {"x-release": "canary"} if is_forced else {"x-slipway-chosen-by": "client"}
        url = f"http://127.0.0.1:{self.stack.layout.port}/chat/v1/completions"
        for _ in range(requests):
            answer = httpx2.post(url, json=BODY, headers=headers, timeout=60)
            assert answer.status_code == 200, answer.text

    def restart(self) -> None:
        self.stack.kill()
        self.stack.start()
        eventually(lambda: bool(self.stack.gateway.ready(CANARY.name)))

    def stop(self) -> None:
        self.stack.kill()


class WorkersWorld(EnvoyWorld):
    def __init__(self, home: Path, cleanup: ExitStack) -> None:
        super().__init__(home, cleanup)
        self.metrics = WorkerCounters(self._workers)

    def _workers(self, route: str) -> dict[str, list[WorkerEndpoint]]:
        if route != "chat":
            raise UnknownRoute(route)
        return {STABLE.name: [], CANARY.name: [WorkerEndpoint("127.0.0.1", self.port)]}

    def start_worker(self) -> None:
        super().start_worker()
        self.port = self.worker.port

    def restart(self) -> None:
        self.stop()
        self.start_worker()

    def stop(self) -> None:
        self.worker.process.kill()
        self.worker.wait()


class PrometheusWorld(WorkersWorld):
    """Scrapes the real worker whenever it is asked."""

    def __init__(self, home: Path, cleanup: ExitStack) -> None:
        super().__init__(home, cleanup)
        self.prometheus = Prometheus()
        url = cleanup.enter_context(serving(self.prometheus))
        read = PrometheusSettings.read({"url": url})
        counters = PrometheusCounters(read, self._scraped, clock=lambda: self.prometheus.now)
        self.metrics: TrafficMetrics = counters

    def _scraped(self, route: str) -> dict[str, int]:
        targets = self._workers(route)
        self.prometheus.now += 15
        try:
            text = httpx2.get(f"http://127.0.0.1:{self.port}/metrics", timeout=5).text
        except httpx2.TransportError:
            text = ""
        self.prometheus.scrape(text, instance="pod", slipway_io_deployment=CANARY.name)
        return dict.fromkeys(targets, 0)


@pytest.fixture(
    params=[
        "fake",
        *(pytest.param(one, marks=pytest.mark.stack) for one in ("envoy", "workers", "prometheus")),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "fake":
        yield FakeWorld()
        return
    with ExitStack() as cleanup:
        yield RIGS[request.param](tmp_path, cleanup)


RIGS = {"envoy": EnvoyWorld, "workers": WorkersWorld, "prometheus": PrometheusWorld}


def canary(world: World) -> TargetCounts:
    return world.metrics.counts("chat")[CANARY.name]


def test_counts_rise_until_a_reset_says_that_they_began_anew(world: World) -> None:
    before = canary(world)
    assert before.since <= datetime.now(UTC)
    world.send(6)
    world.send(3, is_forced=True)
    eventually(lambda: total(canary(world).latency_ms) == 6)
    after = canary(world)
    assert (after.epoch, after.since) == (before.epoch, before.since)
    assert (after.routed, after.requests, after.errors, after.broken, after.abandoned) == (6, 6, 0, 0, 0)
    assert (after.forced_requests, after.forced_errors, after.in_flight) == (3, 0, 0)
    bounds, counts = zip(*after.latency_ms, strict=True)
    assert bounds == (*BOUNDS_MS, math.inf)
    assert list(counts) == sorted(counts)
    assert total(after.first_byte_ms) == 6

    world.restart()
    world.send(2)
    anew = canary(world)
    assert anew.epoch != before.epoch
    assert anew.since > before.since
    assert anew.requests == 2


def test_what_cannot_be_read_is_no_zero(world: World) -> None:
    with pytest.raises(UnknownRoute):
        world.metrics.counts("nobody")
    world.stop()
    with pytest.raises(GatewayUnreachable):
        world.metrics.counts("chat")
