"""The contract of traffic backends: the fake, the real Envoy and HTTPRoutes pass the same tests."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from common.fence import Fence
from gateway.errors import (
    GatewayUnreachable,
    InvalidEndpoint,
    InvalidRoute,
    StaleRouteFence,
    UnknownRoute,
)
from gateway.latency import BOUNDS_MS, since, total
from gateway.routes import (
    Cohort,
    RouteSpec,
    RouteTarget,
    WorkerEndpoint,
)
from gateway.traffic import TargetCounts
from perf.envoy_stack import CANARY, STABLE
from tests.contracts.traffic_rigs import BETA, OPEN, EnvoyWorld, World, released, reweigh
from tests.gateway.counting import routed_since
from tests.patience import eventually

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def counts_when(world: World, **expected: int) -> Mapping[str, TargetCounts]:
    """Counts once the canary's histogram, which may come a second later, has caught up."""

    def caught_up() -> bool:
        canary = world.metrics.counts("chat")[CANARY.name]
        return total(canary.latency_ms) == expected["latencies"]

    eventually(caught_up)
    return world.metrics.counts("chat")


def test_the_split_lies_in_its_binomial_interval(world: World) -> None:
    released(world, 0)
    for turn, percent in enumerate((0, 5, 30, 100), start=2):
        reweigh(world, percent, Fence(1, turn))
        before = world.metrics.counts("chat")
        answers = world.send(400)
        routed = routed_since(before, world.metrics.counts("chat"))
        assert sum(routed.values()) == 400
        assert routed[CANARY.name] == answers.get(CANARY.version, 0)
        spread = 4.5 * math.sqrt(400 * percent * (100 - percent)) / 100
        assert routed[CANARY.name] == pytest.approx(4 * percent, abs=spread)


def test_a_share_is_set_absolutely(world: World) -> None:
    released(world, 100)
    reweigh(world, 0, Fence(1, 2))
    reweigh(world, 0, Fence(1, 2))
    assert world.send(50) == {STABLE.version: 50}
    assert world.gateway.desired_route("chat") == OPEN(STABLE, CANARY, 0)


def test_a_target_without_workers_errs_and_says_its_version(world: World) -> None:
    world.run_workers(STABLE)
    world.gateway.set_route(OPEN(STABLE, CANARY, 100), fence=Fence(1, 1))
    assert world.send(4) == {CANARY.version: 4}
    canary = world.metrics.counts("chat")[CANARY.name]
    assert (canary.routed, canary.requests, canary.errors) == (4, 4, 4)
    assert world.gateway.ready(CANARY.name) == frozenset()


def test_latencies_are_cumulative_histograms_of_chosen_good_answers(world: World) -> None:
    released(world, 100)
    world.send(25)
    world.send(5, release="canary")
    first = counts_when(world, latencies=25)[CANARY.name]
    world.send(15)
    second = counts_when(world, latencies=40)[CANARY.name]
    for histogram in (second.latency_ms, second.first_byte_ms):
        bounds, counts = zip(*histogram, strict=True)
        assert bounds == (*BOUNDS_MS, math.inf)
        assert list(counts) == sorted(counts)
        assert counts[-1] == 40
    assert total(since(first.latency_ms, second.latency_ms)) == 15
    world.break_workers(CANARY)
    world.send(5)
    assert total(world.metrics.counts("chat")[CANARY.name].latency_ms) == 40


def test_nothing_is_in_flight_when_all_is_answered(world: World) -> None:
    released(world, 50)
    world.send(20)
    assert {counts.in_flight for counts in world.metrics.counts("chat").values()} == {0}


def test_a_late_writer_is_refused_and_changes_nothing(world: World) -> None:
    released(world, 10, turn=5)
    late = (Fence(1, 4), Fence(0, 99))
    for fence in late:
        with pytest.raises(StaleRouteFence):
            reweigh(world, 90, fence)
        with pytest.raises(StaleRouteFence):
            world.gateway.set_route(OPEN(CANARY, None, 0), fence=fence)
        with pytest.raises(StaleRouteFence):
            world.gateway.remove_route("chat", fence=fence)
    assert world.gateway.desired_route("chat") == OPEN(STABLE, CANARY, 10)


def test_the_same_fence_may_write_again_and_a_later_holder_wins(world: World) -> None:
    released(world, 10, turn=5)
    reweigh(world, 20, Fence(1, 5))
    reweigh(world, 30, Fence(2, 1))
    with pytest.raises(StaleRouteFence):
        reweigh(world, 40, Fence(1, 6))
    assert world.gateway.desired_route("chat") == OPEN(STABLE, CANARY, 30)


def test_a_removed_route_is_gone_and_its_late_writers_stay_refused(world: World) -> None:
    released(world, 10, turn=5)
    world.gateway.remove_route("chat", fence=Fence(1, 6))
    world.gateway.remove_route("chat", fence=Fence(1, 6))
    assert world.gateway.desired_route("chat") is None
    with pytest.raises(UnknownRoute):
        world.send(1)
    with pytest.raises(UnknownRoute):
        world.metrics.counts("chat")
    with pytest.raises(StaleRouteFence):
        world.gateway.set_route(OPEN(STABLE, None, 0), fence=Fence(1, 5))
    world.gateway.set_route(OPEN(STABLE, None, 0), fence=Fence(1, 7))
    assert world.send(3) == {STABLE.version: 3}


def test_removing_what_never_was_is_no_error(world: World) -> None:
    world.gateway.remove_route("chat", fence=Fence(0, 1))
    assert world.gateway.desired_route("chat") is None


def test_what_is_not_routed_is_not_counted(world: World) -> None:
    with pytest.raises(UnknownRoute):
        world.metrics.counts("chat")


MISROUTED = [
    RouteSpec("chat/large", STABLE, None, 0),
    RouteSpec("", STABLE, None, 0),
    RouteSpec("..", STABLE, None, 0),
    RouteSpec("chat", RouteTarget("../etc", "chatty:1"), None, 0),
    RouteSpec("chat", RouteTarget("chat-1", "chatty:1\r\nx-evil: 1"), None, 0),
    RouteSpec("chat", RouteTarget("chat-1", "modèle:1"), None, 0),
    RouteSpec("chat", STABLE, None, 5),
    RouteSpec("chat", STABLE, CANARY, 101),
    RouteSpec("chat", STABLE, CANARY, -1),
    RouteSpec("chat", STABLE, RouteTarget(STABLE.name, "chatty:2"), 5),
    RouteSpec("chat", STABLE, None, 0, release_header="ajar"),  # type: ignore[arg-type]
    RouteSpec("chat", STABLE, None, 0, release_header="secret", release_key="a\r\nx-evil: 1"),
    RouteSpec("chat", STABLE, None, 0, cohort=BETA),
    RouteSpec("chat", STABLE, CANARY, 0, mirror_percent=5, cohort=BETA),
    RouteSpec("chat", STABLE, CANARY, 0, cohort=Cohort(header="x-release", value="canary")),
    RouteSpec("chat", STABLE, CANARY, 0, cohort=Cohort(header="x-cohort")),
    RouteSpec("chat", STABLE, CANARY, 0, cohort=Cohort(cookie="tier", percent=5)),
]


def test_what_would_be_misrouted_is_refused(world: World) -> None:
    for spec in MISROUTED:
        with pytest.raises(InvalidRoute):
            world.gateway.set_route(spec, fence=Fence(1, 1))
        assert world.gateway.desired_route(spec.name) is None


def test_a_share_without_a_candidate_is_refused(world: World) -> None:
    world.gateway.set_route(OPEN(STABLE, None, 0), fence=Fence(0, 1))
    with pytest.raises(InvalidRoute):
        reweigh(world, 1, Fence(1, 1))


def test_the_candidate_takes_over_as_stable_and_the_last_counts_of_the_former_are_kept(world: World) -> None:
    released(world, 50)
    before = world.metrics.counts("chat")
    sent = world.send(40)
    world.gateway.set_route(OPEN(CANARY, None, 0), fence=Fence(1, 2))
    assert world.send(10) == {CANARY.version: 10}
    assert routed_since(before, world.metrics.counts("chat")) == {
        STABLE.name: sent[STABLE.version],
        CANARY.name: sent[CANARY.version] + 10,
    }


def test_a_version_with_a_percent_sign_arrives_as_it_is(world: World) -> None:
    odd = RouteTarget("chat-1", "chatty:100%REQ(x)%")
    world.run_workers(odd)
    world.gateway.set_route(OPEN(odd, None, 0), fence=Fence(0, 1))
    eventually(lambda: bool(world.gateway.ready(odd.name)))
    assert world.send(1) == {"chatty:100%REQ(x)%": 1}


def test_an_endpoint_that_cannot_be_reached_is_refused(world: World) -> None:
    for address, port in [("localhost", 80), ("", 80), ("0.0.0.0", 80), ("10.0.0.1", 0)]:
        with pytest.raises(InvalidEndpoint):
            world.gateway.set_target("chat-1", [WorkerEndpoint(address, port)], observed_at=NOW)


def test_an_observation_older_than_the_last_is_ignored(world: World) -> None:
    released(world, 0)
    kept = world.gateway.ready(STABLE.name)
    world.gateway.set_target(STABLE.name, [], observed_at=datetime.now(UTC) - timedelta(hours=1))
    time.sleep(0.05)
    assert world.gateway.ready(STABLE.name) == kept
    world.gateway.set_target(STABLE.name, [], observed_at=datetime.now(UTC))
    assert world.gateway.ready(STABLE.name) == frozenset()


def test_a_restart_changes_the_epoch_and_keeps_the_routes(world: World) -> None:
    released(world, 100)
    world.send(10)
    before = world.metrics.counts("chat")
    world.stop()
    world.start()
    eventually(lambda: bool(world.gateway.ready(CANARY.name)))
    assert world.send(4) == {CANARY.version: 4}
    after = world.metrics.counts("chat")
    assert after[CANARY.name].epoch != before[CANARY.name].epoch
    assert after[CANARY.name].requests == 4
    assert routed_since(before, after)[CANARY.name] == 4


def test_what_is_asked_while_it_is_down_is_taken_when_it_starts(world: World) -> None:
    released(world, 0)
    world.stop()
    assert not world.gateway.health().ok
    with pytest.raises(GatewayUnreachable):
        reweigh(world, 100, Fence(1, 2))
    with pytest.raises(GatewayUnreachable):
        world.metrics.counts("chat")
    assert world.gateway.desired_route("chat") == OPEN(STABLE, CANARY, 100)
    world.start()
    assert world.gateway.health().ok
    eventually(lambda: bool(world.gateway.ready(CANARY.name)))
    assert world.send(5) == {CANARY.version: 5}


def test_refreshing_changes_nothing_that_clients_see(world: World) -> None:
    released(world, 100)
    world.gateway.refresh()
    assert world.send(5) == {CANARY.version: 5}
    assert world.gateway.health().ok


def test_copies_of_requests_are_taken_back_and_no_client_sees_their_answers(world: World) -> None:
    released(world, 0)
    before = world.gateway.desired_route("chat")
    assert before
    assert not {"mirror", "mirror_percent"} & world.gateway.cannot().keys()
    world.gateway.set_route(replace(before, mirror_percent=50), fence=Fence(1, 2))
    found = world.gateway.desired_route("chat")
    assert found
    assert found.mirror_percent == 50
    counted = world.metrics.counts("chat")
    assert set(world.send(40)) == {STABLE.version}
    routed = routed_since(counted, world.metrics.counts("chat"))
    # Copies are no part of the split.
    assert routed[CANARY.name] == 0
    if isinstance(world, EnvoyWorld):
        eventually(lambda: 5 <= world.arrived_at(CANARY) <= 35)
    world.gateway.set_route(before, fence=Fence(1, 3))
    assert world.gateway.desired_route("chat") == before
    assert set(world.send(20)) == {STABLE.version}


def test_copies_beside_a_share_are_refused(world: World) -> None:
    released(world, 10)
    before = world.gateway.desired_route("chat")
    assert before
    with pytest.raises(InvalidRoute, match="gets no copies"):
        world.gateway.set_route(replace(before, mirror_percent=50), fence=Fence(1, 2))
