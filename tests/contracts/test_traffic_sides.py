"""The side that a request gets by its client's choice, by a cohort, or by neither: the same of every traffic
backend."""

from dataclasses import replace

from common.fence import Fence
from gateway.routes import Cohort, RouteSpec
from perf.envoy_stack import CANARY, STABLE
from tests.contracts.traffic_rigs import BETA, OPEN, World, released, reweigh
from tests.gateway.counting import routed_since
from tests.patience import eventually


def test_a_client_can_force_its_side_and_does_not_count_in_the_split(world: World) -> None:
    released(world, 0)
    before = world.metrics.counts("chat")
    assert world.send(20, release="canary") == {CANARY.version: 20}
    assert world.send(30, release="stable") == {STABLE.version: 30}
    assert world.send(10) == {STABLE.version: 10}
    assert routed_since(before, world.metrics.counts("chat")) == {STABLE.name: 10, CANARY.name: 0}
    counts = world.metrics.counts("chat")
    assert counts[CANARY.name].forced_requests == 20
    assert counts[STABLE.name].forced_requests == 30
    assert (counts[CANARY.name].requests, counts[STABLE.name].requests) == (0, 10)


def test_who_may_not_choose_a_side_sends_a_request_like_any_other(world: World) -> None:
    released(world, 0)
    for turn, header in enumerate(("off", "secret"), start=2):
        spec = replace(OPEN(STABLE, CANARY, 0), release_header=header)  # type: ignore[arg-type]
        world.gateway.set_route(spec, fence=Fence(1, turn))
        before = world.metrics.counts("chat")
        assert world.send(10, release="canary") == {STABLE.version: 10}
        assert world.send(10, release="canary", key="guessed") == {STABLE.version: 10}
        after = world.metrics.counts("chat")
        assert after[STABLE.name].requests - before[STABLE.name].requests == 20
        assert sum(counts.forced_requests for counts in after.values()) == 0


def test_who_has_the_key_chooses_a_side(world: World) -> None:
    released(world, 0)
    spec = RouteSpec("chat", STABLE, CANARY, 0, release_header="secret", release_key="the-key")
    world.gateway.set_route(spec, fence=Fence(1, 2))
    assert world.send(10, release="canary", key="the-key") == {CANARY.version: 10}
    assert world.send(10, release="canary", key="the-key-") == {STABLE.version: 10}
    assert world.send(10, release="canary") == {STABLE.version: 10}
    reweigh(world, 100, Fence(1, 3))
    assert world.send(10, release="stable", key="the-key") == {STABLE.version: 10}
    assert world.gateway.desired_route("chat") == replace(spec, candidate_percent=100)


def test_a_cohort_goes_to_the_candidate_and_is_counted_apart(world: World) -> None:
    released(world, 0)
    cohort = replace(OPEN(STABLE, CANARY, 0), cohort=BETA)
    world.gateway.set_route(cohort, fence=Fence(1, 2))
    before = world.metrics.counts("chat")
    assert world.send(20, headers={"x-cohort": "beta"}) == {CANARY.version: 20}
    assert world.send(10, headers={"x-cohort": "betamax"}) == {STABLE.version: 10}
    assert world.send(5, headers={"x-cohort": "beta"}, release="stable") == {STABLE.version: 5}
    after = world.metrics.counts("chat")
    assert routed_since(before, after) == {STABLE.name: 10, CANARY.name: 0}
    assert after[CANARY.name].forced_requests == 20
    assert world.gateway.desired_route("chat") == cohort
    reweigh(world, 100, Fence(1, 3))
    assert world.send(5, headers={"x-cohort": "beta"}) == {CANARY.version: 5}
    world.gateway.set_route(OPEN(STABLE, None, 0), fence=Fence(1, 4))
    assert world.send(5, headers={"x-cohort": "beta"}) == {STABLE.version: 5}


def test_a_share_of_a_headers_values_is_the_same_each_time(world: World) -> None:
    released(world, 0)
    share = replace(OPEN(STABLE, CANARY, 0), cohort=Cohort(header="x-user", percent=40))
    world.gateway.set_route(share, fence=Fence(1, 2))
    sides = {}
    for user in range(60):
        for _ in range(2):
            (side,) = world.send(1, headers={"x-user": f"user-{user}"})
            assert sides.setdefault(user, side) == side
    assert 10 <= sum(side == CANARY.version for side in sides.values()) <= 40
    assert world.send(5) == {STABLE.version: 5}
    by_cookie = replace(OPEN(STABLE, CANARY, 0), cohort=Cohort(cookie="tier", value="beta.1"))
    world.gateway.set_route(by_cookie, fence=Fence(1, 3))
    assert world.send(5, headers={"cookie": "a=b; tier=beta.1; c=d"}) == {CANARY.version: 5}
    assert world.send(5, headers={"cookie": "tier=beta.12; mytier=beta.1"}) == {STABLE.version: 5}


def test_without_a_candidate_everything_goes_to_stable(world: World) -> None:
    world.run_workers(STABLE)
    world.gateway.set_route(OPEN(STABLE, None, 0), fence=Fence(0, 1))
    eventually(lambda: bool(world.gateway.ready(STABLE.name)))
    assert world.send(10, release="canary") == {STABLE.version: 10}
    assert world.send(10) == {STABLE.version: 10}


def test_errors_of_chosen_and_of_forced_requests_are_counted_apart(world: World) -> None:
    released(world, 100)
    world.break_workers(CANARY)
    world.send(7)
    world.send(3, release="canary")
    canary = world.metrics.counts("chat")[CANARY.name]
    assert (canary.requests, canary.errors) == (7, 7)
    assert (canary.forced_requests, canary.forced_errors) == (3, 3)
