"""Whatever goes wrong between the control plane and a cluster: in the end its routes are what was wanted."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.fence import Fence
from gateway.errors import GatewayError, GatewayUnreachable
from gateway.routes import RouteSpec
from kube.fake.chaos import Chaos, Mishap
from kube.resources import CONFIG_MAPS, HTTP_ROUTES, SERVICES, Ref
from tests.gateway.gateway_api.test_backend import CANARY, OPEN, STABLE, with_services, with_their_route
from tests.gateway.gateway_api.worlds import Cluster, their_rule

pytestmark = pytest.mark.any_database

Wish = int | None
"""What percentage the candidate gets; None: that the route goes."""


class World:
    def __init__(self, *, is_theirs: bool) -> None:
        """`is_theirs`: our rules belong into a route of somebody else."""
        self.cluster = with_their_route() if is_theirs else with_services(Cluster())
        self.name = "models" if is_theirs else "slipway-chat"
        self.is_theirs = is_theirs
        self.chaos = Chaos(self.cluster.server)
        self.cluster.transport.faults.insert(0, self.chaos)
        self.turn = 0
        rules = [their_rule(name="neighbour")]
        route = {"parentRefs": [{"name": "models"}], "rules": rules}
        self.cluster.run_service("docs")
        for name in ("slipway-chatter", "chat"):
            self.cluster.client.create(
                {
                    "apiVersion": "gateway.networking.k8s.io/v1",
                    "kind": "HTTPRoute",
                    "metadata": {"name": name, "namespace": "slipway"},
                    "spec": route,
                }
            )
        self.foreign = self.others()

    def try_(self, wish: Wish, *, sleeps_before_call: int = 0, meanwhile: Callable[[], object] = int) -> bool:
        """Attempt a step and tell whether it came through. It may sleep past its lease, and others go on."""
        self.turn += 1
        fence, calls = Fence(1, self.turn), [0]

        def sleep(_: Any) -> None:
            calls[0] += 1
            if calls[0] == sleeps_before_call:
                meanwhile()

        self.cluster.transport.faults.insert(0, sleep)
        try:
            if wish is None:
                self.cluster.gateway.remove_route("chat", fence=fence)
            else:
                self.cluster.gateway.set_route(wished(wish), fence=fence)
        except GatewayError:
            return False
        finally:
            self.cluster.transport.faults.remove(sleep)
        return True

    def settle(self, wish: Wish) -> None:
        self.chaos.calm()
        self._until_through(wish)
        self.chaos.serve_late()
        for _ in range(3):
            self.cluster.controller.tick()
        with suppress(GatewayUnreachable):
            self.cluster.gateway.refresh()
        if wish is not None and self.cluster.gateway.desired_route("chat") != wished(wish):
            # As whoever keeps routes does it, at the next look.
            self._until_through(wish)

    def _until_through(self, wish: Wish) -> None:
        for _ in range(5):
            if self.try_(wish):
                return
        raise AssertionError("It never came through.")

    def others(self) -> dict[str, Any]:
        """Specs and annotations of what is not ours to change."""
        client = self.cluster.client
        found = {
            f"{resource.kind} {one['metadata']['name']}": (
                one.get("spec"),
                one["metadata"].get("annotations"),
            )
            for resource in (HTTP_ROUTES, SERVICES, CONFIG_MAPS)
            for one in client.list(resource).items
            if one["metadata"]["name"] != self.name
        }
        if self.is_theirs:
            route = client.get(Ref(HTTP_ROUTES, self.name, "slipway"))
            rules = [one for one in route["spec"]["rules"] if one["name"] == "docs"]
            theirs = route["metadata"]["annotations"]["theirs"]
            found["theirs"] = (rules, theirs, route["spec"]["hostnames"], route["spec"]["parentRefs"])
        return found


def wished(percent: int) -> RouteSpec:
    return replace(OPEN, candidate_percent=percent)


def check(world: World, last: Wish) -> None:
    cluster = world.cluster
    routes = [one["metadata"]["name"] for one in cluster.routes()]
    assert len(routes) == len(set(routes)) <= 3
    if last is not None:
        shares = {STABLE.name: 100 - last, CANARY.name: last}
        assert cluster.weights(world.name) == {name: share for name, share in shares.items() if share}
    else:
        assert cluster.gateway.desired_route("chat") is None
        attached = [
            one for one in cluster.controller.programmed.values() if "slipway.chat" in str(one["spec"])
        ]
        assert attached == []
    assert world.others() == world.foreign


wishes = st.sampled_from([0, 25, 70, 100, None])
calls = st.lists(st.none() | st.none() | st.sampled_from(Mishap), max_size=10)
attempts = st.tuples(wishes, calls, st.integers(0, 8), wishes)


@pytest.mark.parametrize("is_theirs", [False, True], ids=["own", "theirs"])
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=12)
@given(course=st.lists(attempts, max_size=3), last=wishes, sleeper=st.tuples(wishes, st.integers(1, 8)))
def test_a_route_is_what_was_wanted_last_and_nothing_else_is_touched(
    course: list[Any], last: Wish, sleeper: tuple[Wish, int], is_theirs: bool
) -> None:
    world = World(is_theirs=is_theirs)
    for wish, mishaps, sleeps_before, meanwhile in course:
        world.chaos.calls.extend(mishaps)
        world.try_(wish, sleeps_before_call=sleeps_before, meanwhile=partial(world.try_, meanwhile))
    woken = False

    def last_of_all() -> None:
        nonlocal woken
        woken = True
        world.settle(last)

    world.try_(sleeper[0], sleeps_before_call=sleeper[1], meanwhile=last_of_all)
    if not woken:
        world.settle(last)
    check(world, last)
