from datetime import UTC, datetime

import pytest

from common.fence import Fence
from gateway.backends.fake import Behaviour, FakeGateway
from gateway.latency import quantile_ms, total
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from gateway.traffic import TargetCounts

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STABLE, CANARY = RouteTarget("a", "m:1"), RouteTarget("b", "m:2")


def serving(seed: int = 1) -> FakeGateway:
    gateway = FakeGateway(seed=seed, clock=lambda: NOW)
    for target in (STABLE, CANARY):
        gateway.set_target(target.name, [WorkerEndpoint("10.0.0.1", 80)], observed_at=datetime.now(UTC))
    gateway.set_route(RouteSpec("chat", STABLE, CANARY, 20), fence=Fence(1, 1))
    return gateway


def after(gateway: FakeGateway, requests: int) -> TargetCounts:
    gateway.send("chat", requests)
    return gateway.counts("chat")[CANARY.name]


def test_the_same_seed_gives_the_same_traffic() -> None:
    assert after(serving(3), 500) == after(serving(3), 500)
    assert after(serving(3), 500) != after(serving(4), 500)


def test_a_target_errs_and_takes_as_long_as_it_is_told() -> None:
    gateway = serving()
    gateway.behave(CANARY.name, Behaviour(error_share=0.3, median_ms=400, spread=0.1))
    canary = after(gateway, 10_000)
    assert canary.errors / canary.requests == pytest.approx(0.3, abs=0.05)
    assert quantile_ms(canary.latency_ms, 0.5) == pytest.approx(400, rel=0.15)
    assert quantile_ms(canary.first_byte_ms, 0.5) == pytest.approx(80, rel=0.15)
    assert total(canary.latency_ms) == canary.requests - canary.errors


def test_clients_that_leave_are_abandoned_requests() -> None:
    gateway = serving()
    gateway.send("chat", 30, abandon=True)
    counts = gateway.counts("chat").values()
    assert sum(one.abandoned for one in counts) == sum(one.routed for one in counts) == 30
    assert sum(one.requests for one in counts) == 0
