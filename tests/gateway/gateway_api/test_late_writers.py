"""Whoever writes late, at the same time as others, or without an answer, spoils nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from common.fence import Fence
from gateway.backends.gateway_api.backend import TOMBSTONE_LASTS, GatewayApi
from gateway.backends.gateway_api.documents import record_of
from gateway.errors import GatewayError, GatewayUnreachable, InvalidRoute, StaleRouteFence
from kube.client import KubeClient
from kube.fake.transport import OnlyAt, after_doing, failing, pausing
from kube.fake.wire import ADMIN
from kube.resources import HTTP_ROUTES, Ref
from tests.gateway.gateway_api.test_backend import CANARY, OPEN, STABLE, with_services, with_their_route
from tests.gateway.gateway_api.worlds import SETTINGS, Cluster, their_rule


@pytest.fixture
def cluster() -> Cluster:
    return with_services(Cluster())


def test_a_removed_route_is_attached_to_nothing_until_its_fence_is_forgotten(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    cluster.gateway.remove_route("chat", fence=Fence(1, 2))
    assert "parentRefs" not in cluster.route()["spec"]
    cluster.gateway.refresh()
    assert len(cluster.routes()) == 1
    later = datetime.now(UTC) + TOMBSTONE_LASTS + timedelta(minutes=1)
    GatewayApi(KubeClient(cluster.transport), SETTINGS, clock=lambda: later).refresh()
    assert cluster.routes() == []


def newer_weight(gateway: GatewayApi) -> None:
    gateway.set_route(replace(OPEN, candidate_percent=70), fence=Fence(1, 7))


def newer_removal(gateway: GatewayApi) -> None:
    gateway.remove_route("chat", fence=Fence(1, 7))


def back_after_removal(gateway: GatewayApi) -> None:
    newer_removal(gateway)
    gateway.set_route(replace(OPEN, candidate_percent=70), fence=Fence(1, 8))


@pytest.mark.parametrize(
    "is_theirs", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["own", "theirs"]
)
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("newer", [newer_weight, newer_removal, back_after_removal])
@pytest.mark.parametrize("late", ["set", "set and refused", "remove"])
def test_a_writer_that_slept_past_its_lease_at_any_call_changes_nothing(
    late: str, newer: Callable[[GatewayApi], None], begun: bool, is_theirs: bool
) -> None:
    at = 0
    while True:
        at += 1
        cluster = with_their_route() if is_theirs else with_services(Cluster())
        cluster.run_service("docs")
        if begun:
            cluster.gateway.set_route(replace(OPEN, candidate_percent=5), fence=Fence(1, 2))
        if late == "set and refused":
            cluster.controller.refuses = lambda one: "UnsupportedValue" if "25" in str(one["spec"]) else ""
        slept: list[bool] = []

        def meanwhile(cluster: Cluster = cluster, slept: list[bool] = slept) -> None:
            slept.append(True)
            newer(cluster.gateway)

        sleeper, transport = cluster.writer()
        transport.faults.append(pausing(at, meanwhile))
        try:
            if late == "remove":
                sleeper.remove_route("chat", fence=Fence(1, 3))
            else:
                sleeper.set_route(OPEN, fence=Fence(1, 3))
        except (StaleRouteFence, GatewayUnreachable, InvalidRoute):
            pass
        if not slept:
            assert at > 2
            return
        name = "models" if is_theirs else "slipway-chat"
        route = cluster.route(name)
        record = record_of(route, "chat")
        assert record is not None
        assert record.fence.turn >= 7, at
        if newer is newer_removal:
            assert cluster.gateway.desired_route("chat") is None, at
            assert CANARY.name not in str(route["spec"]["rules"]) or "parentRefs" not in route["spec"], at
        else:
            assert cluster.weights(name) == {STABLE.name: 30, CANARY.name: 70}, at
        if is_theirs:
            assert route["spec"]["rules"][0]["name"] == "docs", at


@pytest.mark.parametrize("answered", [True, False])
def test_wherever_an_answer_fails_asking_again_completes_it(answered: bool) -> None:
    """`answered`: the server says that it failed; otherwise it did it, and the answer is lost."""
    at = 0
    while True:
        at += 1
        cluster = with_services(Cluster())
        fault = OnlyAt(
            at,
            failing(503, "etcdserver: leader changed", reason="ServiceUnavailable")
            if answered
            else after_doing(cluster.server, ADMIN),
        )
        cluster.transport.faults.append(fault)
        try:
            cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
        except GatewayError:
            cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
        else:
            if not fault.is_over:
                return
        assert cluster.weights() == {STABLE.name: 75, CANARY.name: 25}, at


def test_a_user_who_edits_at_the_same_time_loses_nothing(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    cluster.run_service("docs")
    at, edited = 0, True
    while edited:
        at += 1
        edited = False
        writer, transport = cluster.writer()

        def edit(number: int = at) -> None:
            nonlocal edited
            edited = True
            rules = cluster.route()["spec"]["rules"]
            path = [{"path": {"type": "PathPrefix", "value": f"/docs/{number}"}}]
            rules = [one for one in rules if one["name"] != "docs"] + [their_rule(matches=path)]
            cluster.client.patch(Ref(HTTP_ROUTES, "slipway-chat", "slipway"), {"spec": {"rules": rules}})

        transport.faults.append(pausing(at, edit))
        writer.set_route(replace(OPEN, candidate_percent=at), fence=Fence(1, at + 1))
        if edited:
            (theirs,) = [one for one in cluster.route()["spec"]["rules"] if one["name"] == "docs"]
            assert theirs["matches"][0]["path"]["value"] == f"/docs/{at}"
    assert at > 3
