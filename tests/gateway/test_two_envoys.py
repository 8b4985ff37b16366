"""Two clusters on one machine, each with a real Envoy of its own: splits, counts and deaths do not mix."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from common.actor import Actor
from common.fence import Fence
from gateway import selectors
from gateway.backends import configured
from gateway.models import Gateway
from gateway.reconcilers import GatewayReconciler
from gateway.routes import RouteSpec, RouteTarget
from gateway.services import gateways, routes
from perf.envoy_stack import EnvoyStack
from perf.load import LoadClient, LoopingClients
from releases.split import interval_percent
from tests.cast import SYSTEM
from tests.crash.harness import Clock, worker
from tests.gateway.cast import cluster
from tests.gateway.counting import routed_since
from tests.patience import eventually

REQUESTS = 400
ANN = Actor(name="ann", user_id=1, via="web")
CHAT = RouteSpec("chat", RouteTarget("chat-1", "chatty:1"), RouteTarget("chat-2", "chatty:2"), 15)
DOCS = RouteSpec("docs", RouteTarget("docs-1", "writer:1"), RouteTarget("docs-2", "writer:2"), 70)

pytestmark = [pytest.mark.stack, pytest.mark.django_db(transaction=True)]


class Side:
    """A cluster whose row names an Envoy, the process of that Envoy, and a released service behind it."""

    def __init__(self, name: str, spec: RouteSpec, home: Path) -> None:
        self.cluster, self.spec = cluster(name), spec
        self.stack = EnvoyStack(home)
        ports = {"port": self.stack.layout.port, "admin_port": self.stack.layout.admin_port}
        gateways.set_gateway(
            actor=SYSTEM, cluster=self.cluster, kind="envoy", settings={**ports, "bind": "127.0.0.1"}
        )
        made: Any = configured.backends_of(Gateway.objects.get(cluster=self.cluster))
        self.stack.layout, self.stack.gateway, self.stack.metrics = (
            made.traffic.layout,
            made.traffic,
            made.metrics,
        )

    def start(self) -> None:
        self.stack.log.parent.mkdir(parents=True, exist_ok=True)
        self.stack.start()
        for target in self.spec.targets:
            self.stack.run_workers(target)
        self.route(self.spec.candidate_percent, turn=1)
        for target in self.spec.targets:
            eventually(lambda name=target.name: bool(self.stack.gateway.ready(name)))

    def route(self, percent: int, *, turn: int) -> None:
        spec = RouteSpec(self.spec.name, self.spec.stable, self.spec.candidate, percent)
        routes.set_route(spec, cluster=self.cluster, fence=Fence(1, turn), actor=ANN)

    @property
    def path(self) -> str:
        return f"/{self.spec.name}/v1"

    async def ask(self) -> Counter[str]:
        client = LoadClient(self.stack.layout.port)
        answers = [await client.get(self.path) for _ in range(REQUESTS)]
        client.close()
        assert {answer.status for answer in answers} == {200}
        return Counter(answer.version for answer in answers)


@pytest.fixture
def sides(tmp_path: Path, settings: Any) -> Iterator[tuple[Side, Side]]:
    settings.SLIPWAY_GATEWAY_BACKENDS = {"envoy": "gateway.backends.envoy.configured"}
    settings.SLIPWAY_RUN_DIR, settings.SLIPWAY_LOG_DIR = tmp_path / "run", tmp_path / "logs"
    configured.forget()
    # The first cluster has the installation's own gateway, which does not run here.
    cluster()
    both = Side("prague", CHAT, tmp_path / "prague"), Side("tokyo", DOCS, tmp_path / "tokyo")
    try:
        for side in both:
            side.start()
        yield both
    finally:
        for side in both:
            side.stack.stop()
        configured.forget()


def test_two_envoys_split_and_count_each_their_own_and_the_death_of_one_is_its_own(
    sides: tuple[Side, Side],
) -> None:
    prague, tokyo = sides

    async def ask_both() -> list[Counter[str]]:
        return await asyncio.gather(prague.ask(), tokyo.ask())

    before = [selectors.counts(selectors.route(side.spec.name)) for side in sides]
    answered = asyncio.run(ask_both())
    for side, seen, versions in zip(sides, before, answered, strict=True):
        routed = routed_since(seen, selectors.counts(selectors.route(side.spec.name)))
        assert routed == {target.name: versions[target.version] for target in side.spec.targets}
        assert sum(routed.values()) == REQUESTS
        low, high = interval_percent(REQUESTS, side.spec.candidate_percent)
        assert side.spec.candidate is not None
        assert low <= 100 * routed[side.spec.candidate.name] / REQUESTS <= high
        assert side.stack.get("/docs/v1" if side is prague else "/chat/v1").status == 404

    def take_the_candidate_away() -> None:
        try:
            tokyo.route(0, turn=2)
        finally:
            connection.close()  # of this thread

    async def kill_prague_under_load() -> LoopingClients:
        load = LoopingClients(tokyo.stack.layout.port)
        load.add(tokyo.path, clients=4)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(prague.stack.kill)
        sent = len(load.answers)
        await asyncio.to_thread(take_the_candidate_away)
        while len(load.answers) < sent + 200:
            await asyncio.sleep(0.01)
        await load.finish()
        return load

    load = asyncio.run(kill_prague_under_load())
    assert load.failures == []
    assert asyncio.run(tokyo.ask()) == {DOCS.stable.version: REQUESTS}

    worker([GatewayReconciler()], Clock()).sweep()
    healthy = dict(Gateway.objects.values_list("cluster__name", "is_healthy"))
    assert (healthy["prague"], healthy["tokyo"]) == (False, True)

    prague.stack.start()
    low, high = interval_percent(REQUESTS, CHAT.candidate_percent)
    assert CHAT.candidate is not None
    assert low <= 100 * asyncio.run(prague.ask())[CHAT.candidate.version] / REQUESTS <= high
    assert asyncio.run(tokyo.ask()) == {DOCS.stable.version: REQUESTS}
