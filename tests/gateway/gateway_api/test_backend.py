"""Routes on a cluster's Gateway, whoever writes late, twice or over others."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from common.fence import Fence
from gateway.backends.gateway_api.backend import GatewayApi
from gateway.backends.gateway_api.parent import address_of
from gateway.backends.gateway_api.rules import ours
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.errors import GatewayUnreachable, InvalidEndpoint, InvalidRoute, StaleRouteFence
from gateway.routes import (
    NamedService,
    RouteSpec,
    RouteTarget,
    WorkerEndpoint,
)
from kube.client import KubeClient
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN
from kube.resources import HTTP_ROUTES, Ref
from tests.gateway.gateway_api.worlds import SETTINGS, Cluster, DataPlane, their_rule

STABLE, CANARY = RouteTarget("chat-r1", "chatty:1"), RouteTarget("chat-r2", "chatty:2")
OPEN = RouteSpec("chat", STABLE, CANARY, 25, release_header="open")
THEIRS = replace(SETTINGS, http_routes=(("chat", "models"),))


@pytest.fixture
def cluster() -> Cluster:
    return with_services(Cluster())


def with_services(cluster: Cluster) -> Cluster:
    for target in (STABLE, CANARY):
        cluster.run_service(target.name)
    return cluster


def with_their_route(**spec: Any) -> Cluster:
    cluster = with_services(Cluster(THEIRS))
    cluster.run_service("docs")
    cluster.client.create(
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": "models", "namespace": "slipway", "annotations": {"theirs": "yes"}},
            "spec": {
                "parentRefs": [{"name": "models"}],
                "hostnames": ["theirs.example"],
                "rules": [their_rule()],
                **spec,
            },
        }
    )
    return cluster


def test_a_route_is_one_httproute_of_ours_whose_split_is_the_weights(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    (route,) = cluster.routes()
    assert route["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "slipway"
    assert {one["manager"] for one in route["metadata"]["managedFields"] if "subresource" not in one} == {
        "slipway"
    }
    assert route["spec"]["hostnames"] == ["models.example"]
    assert cluster.weights() == {STABLE.name: 75, CANARY.name: 25}
    assert all(rule["timeouts"] == {"request": "0s"} for rule in route["spec"]["rules"])
    assert cluster.gateway.desired_route("chat") == OPEN


def test_requests_reach_the_version_that_was_chosen_and_say_who_chose(cluster: Cluster) -> None:
    cluster.gateway.set_route(replace(OPEN, candidate_percent=0), fence=Fence(1, 1))
    plane = DataPlane(cluster.controller)
    chosen = plane.ask("/chat/v1/completions", {"x-release": "canary", "x-release-key": "k"})
    assert chosen == (CANARY.name, "/v1/completions", {"x-slipway-chosen-by": "client"})
    # What only the gateway may say is taken away from whoever says it.
    assert plane.ask("/chat/v1", {"x-slipway-chosen-by": "client"}) == (STABLE.name, "/v1", {})
    assert plane.ask("/chat/v10", {}) is None
    assert plane.ask("/chat/metrics", {}) is None
    assert plane.ask("/chat-large/v1", {}) is None


def test_every_path_of_a_service_with_its_own_routes_is_passed_on(cluster: Cluster) -> None:
    whole = replace(OPEN, candidate_percent=0, all_paths=True)
    cluster.gateway.set_route(whole, fence=Fence(1, 1))
    assert cluster.gateway.desired_route("chat") == whole
    plane = DataPlane(cluster.controller)
    told = {"x-forwarded-prefix": "/chat"}
    assert plane.ask("/chat/detect", {"x-forwarded-prefix": "/x"}) == (STABLE.name, "/detect", told)
    chosen = plane.ask("/chat/v1/detect", {"x-release": "canary"})
    assert chosen == (CANARY.name, "/v1/detect", told | {"x-slipway-chosen-by": "client"})
    assert plane.ask("/chat-large/detect", {}) is None
    # Also where an old Gateway API keeps no names of rules, they are known as ours.
    rules = [
        {key: one for key, one in rule.items() if key != "name"} for rule in cluster.route()["spec"]["rules"]
    ]
    assert ours(rules, "chat") == rules


def test_who_gets_nothing_is_not_named_at_all(cluster: Cluster) -> None:
    for turn, (percent, weights) in enumerate(((0, {STABLE.name: 100}), (100, {CANARY.name: 100})), start=1):
        cluster.gateway.set_route(replace(OPEN, candidate_percent=percent), fence=Fence(1, turn))
        assert cluster.weights() == weights
    cluster.gateway.set_route(replace(OPEN, candidate=None, candidate_percent=0), fence=Fence(1, 3))
    assert CANARY.name not in str(cluster.route()["spec"])


def test_a_key_stands_where_the_gateway_needs_it_and_nowhere_else(cluster: Cluster) -> None:
    spec = replace(OPEN, release_header="secret", release_key="sesame")
    cluster.gateway.set_route(spec, fence=Fence(1, 1))
    assert "sesame" not in str(cluster.route()["metadata"]["annotations"])
    assert cluster.gateway.desired_route("chat") == spec
    plane = DataPlane(cluster.controller)
    wanted = {"x-release": "canary", "x-release-key": "sesame"}
    found = plane.ask("/chat/v1", wanted)
    assert found is not None
    assert found[0] == CANARY.name


def test_the_same_again_writes_nothing(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    before = cluster.route()["metadata"]["resourceVersion"]
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.route()["metadata"]["resourceVersion"] == before


def test_a_word_on_an_earlier_generation_does_not_count(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    cluster.controller.runs = False
    with pytest.raises(GatewayUnreachable, match=r"has not taken the route chat within 0\.3 s"):
        cluster.gateway.set_route(replace(OPEN, candidate_percent=50), fence=Fence(1, 2))
    assert cluster.gateway.desired_route("chat") == replace(OPEN, candidate_percent=50)
    cluster.controller.runs = True
    cluster.gateway.set_route(replace(OPEN, candidate_percent=50), fence=Fence(1, 3))
    assert cluster.weights() == {STABLE.name: 50, CANARY.name: 50}


def test_a_slow_controller_is_waited_for(cluster: Cluster) -> None:
    cluster.controller.looks_late = 4
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.weights() == {STABLE.name: 75, CANARY.name: 25}


def test_what_the_gateway_refuses_is_put_back_and_said(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    cluster.controller.refuses = lambda route: "UnsupportedValue" if "50" in str(route["spec"]) else ""
    with pytest.raises(
        InvalidRoute, match=r"does not take the route chat\. Accepted is False: UnsupportedValue"
    ):
        cluster.gateway.set_route(replace(OPEN, candidate_percent=50), fence=Fence(1, 2))
    assert cluster.gateway.desired_route("chat") == OPEN
    assert cluster.weights() == {STABLE.name: 75, CANARY.name: 25}
    with pytest.raises(StaleRouteFence):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))


def test_a_listener_that_takes_no_routes_of_the_namespace_is_explained(cluster: Cluster) -> None:
    cluster.controller.refuses = lambda _: "NotAllowedByListeners"
    with pytest.raises(InvalidRoute, match="must allow routes of this namespace"):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.gateway.desired_route("chat") is None
    assert cluster.route()["spec"].get("parentRefs") is None


def test_a_version_without_a_service_is_waited_for_and_named() -> None:
    cluster = Cluster()
    cluster.run_service(STABLE.name)
    with pytest.raises(GatewayUnreachable, match="The Service of a version, or"):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    cluster.run_service(CANARY.name)
    cluster.gateway.set_route(OPEN, fence=Fence(1, 2))


def test_a_gateway_that_is_not_programmed_has_taken_nothing(cluster: Cluster) -> None:
    cluster.say_programmed("False")
    with pytest.raises(GatewayUnreachable, match="not programmed: NoResources"):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert not cluster.gateway.health().ok
    cluster.say_programmed("True")
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.gateway.health().ok


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (("HTTPRoute",), "does not support HTTPRoutePathRewrite"),
        ((), "does not say what it supports"),
    ],
)
def test_a_class_without_what_routes_need_is_refused_before_anything_is_written(
    features: tuple[str, ...], why: str
) -> None:
    cluster = with_services(Cluster(features=features))
    with pytest.raises(InvalidRoute, match=why):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.routes() == []
    assert why in cluster.gateway.health().detail


@pytest.mark.parametrize(
    ("listener", "address", "settings", "url"),
    [
        ({"port": 80, "protocol": "HTTP"}, "10.0.0.9", {}, "http://10.0.0.9"),
        ({"port": 8083, "protocol": "HTTP"}, "fd00::9", {}, "http://[fd00::9]:8083"),
        ({"port": 443, "protocol": "HTTPS"}, "lb.example", {}, "https://lb.example"),
        ({"port": 80, "protocol": "HTTP"}, "10.0.0.9", {"section": "other"}, ""),
        ({"port": 5432, "protocol": "TCP"}, "10.0.0.9", {}, ""),
        ({"port": 80, "protocol": "HTTP"}, None, {}, ""),
    ],
)
def test_a_gateway_says_where_clients_reach_it(
    listener: dict[str, Any], address: str | None, settings: dict[str, str], url: str
) -> None:
    spec = {"gatewayClassName": "lab", "listeners": [{"name": "web"} | listener]}
    status = {"addresses": [{"type": "IPAddress", "value": address}]} if address else {}
    gateway = {"spec": spec, "status": status}
    assert address_of(gateway, GatewayApiSettings(gateway="models", **settings)) == url


def test_what_a_class_has_without_saying_so_can_be_named() -> None:
    settings = replace(SETTINGS, assume_features=("HTTPRoute", "HTTPRoutePathRewrite"))
    cluster = with_services(Cluster(settings, features=()))
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert all("timeouts" not in rule for rule in cluster.route()["spec"]["rules"])
    assert "sets no time limits" in cluster.gateway.health().detail


def test_a_cluster_without_the_gateway_that_is_named_says_so() -> None:
    cluster = Cluster()
    elsewhere = GatewayApi(KubeClient(cluster.transport), GatewayApiSettings(gateway="edge"))
    with pytest.raises(GatewayUnreachable, match="has no Gateway slipway/edge"):
        elsewhere.set_route(OPEN, fence=Fence(1, 1))
    assert "has no Gateway slipway/edge" in elsewhere.health().detail


# What others have.


def test_rules_filters_and_annotations_of_others_survive_every_change() -> None:
    cluster = with_their_route()
    before = cluster.route("models")
    for turn, percent in enumerate((5, 50, 0), start=1):
        cluster.gateway.set_route(replace(OPEN, candidate_percent=percent), fence=Fence(1, turn))
    after = cluster.route("models")
    assert after["spec"]["rules"][0] == before["spec"]["rules"][0]
    assert after["metadata"]["annotations"]["theirs"] == "yes"
    assert after["spec"]["hostnames"] == ["theirs.example"]
    assert after["spec"]["parentRefs"] == before["spec"]["parentRefs"]
    assert "labels" not in after["metadata"]
    cluster.gateway.remove_route("chat", fence=Fence(1, 4))
    assert cluster.route("models")["spec"] == before["spec"]


def test_filters_and_limits_that_others_put_into_our_rule_stay(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    rules = cluster.route()["spec"]["rules"]
    split = rules[-1]
    mirror = {
        "type": "RequestMirror",
        "requestMirror": {"backendRef": {"name": "shadow", "port": 80}, "percent": 10},
    }
    split["filters"][1]["requestHeaderModifier"]["set"] = [{"name": "x-team", "value": "a"}]
    split["filters"].append(mirror)
    split["timeouts"] = {"request": "90s"}
    cluster.run_service("shadow")
    ref = Ref(HTTP_ROUTES, "slipway-chat", "slipway")
    cluster.client.patch(ref, {"spec": {"rules": [*rules, their_rule()]}})
    cluster.run_service("docs")
    assert cluster.gateway.desired_route("chat") == OPEN
    cluster.gateway.set_route(replace(OPEN, candidate_percent=60), fence=Fence(1, 2))
    *_, ours, theirs = cluster.route()["spec"]["rules"]
    assert theirs["name"] == "docs"
    assert ours["timeouts"] == {"request": "90s"}
    assert [one["type"] for one in ours["filters"]] == [
        "URLRewrite",
        "RequestHeaderModifier",
        "RequestMirror",
    ]
    assert ours["filters"][1]["requestHeaderModifier"]["set"] == [{"name": "x-team", "value": "a"}]
    assert cluster.weights() == {STABLE.name: 40, CANARY.name: 60}


def test_weights_that_somebody_changed_by_hand_are_not_as_wished(cluster: Cluster) -> None:
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    rules = cluster.route()["spec"]["rules"]
    rules[-1]["backendRefs"][1]["weight"] = 99
    cluster.client.patch(Ref(HTTP_ROUTES, "slipway-chat", "slipway"), {"spec": {"rules": rules}})
    assert cluster.gateway.desired_route("chat") is None
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.weights() == {STABLE.name: 75, CANARY.name: 25}


def test_where_rules_have_no_names_ours_are_known_by_what_they_match() -> None:
    cluster = with_services(Cluster(rules_have_names=False))
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert cluster.gateway.desired_route("chat") == OPEN
    assert len(cluster.route()["spec"]["rules"]) == 3
    closed = replace(OPEN, release_header="off", candidate_percent=40)
    cluster.gateway.set_route(closed, fence=Fence(1, 2))
    (split,) = cluster.route()["spec"]["rules"]
    assert [ref["weight"] for ref in split["backendRefs"]] == [60, 40]
    assert cluster.gateway.desired_route("chat") == closed


def test_a_rule_of_others_for_the_same_requests_is_named_and_not_touched() -> None:
    rival = their_rule(name="mine", matches=[{"path": {"type": "PathPrefix", "value": "/chat/v1"}}])
    cluster = with_their_route(rules=[rival])
    with pytest.raises(InvalidRoute, match="The rule mine of the HTTPRoute matches the requests of chat"):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    assert [one["name"] for one in cluster.route("models")["spec"]["rules"]] == ["mine"]


def test_an_httproute_of_our_name_that_is_not_ours_is_never_touched(cluster: Cluster) -> None:
    theirs = cluster.client.create(
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": "slipway-chat", "namespace": "slipway"},
            "spec": {"rules": [their_rule()]},
        }
    )
    with pytest.raises(InvalidRoute, match="that is not Slipway's"):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    cluster.gateway.remove_route("chat", fence=Fence(1, 2))
    after = cluster.route()
    assert after["spec"] == theirs["spec"]
    assert "annotations" not in after["metadata"]


def test_their_httproute_must_be_there_and_name_our_gateway() -> None:
    with pytest.raises(InvalidRoute, match="There is no HTTPRoute slipway/models"):
        with_services(Cluster(THEIRS)).gateway.set_route(OPEN, fence=Fence(1, 1))
    Cluster(THEIRS).gateway.remove_route("chat", fence=Fence(1, 1))
    cluster = with_their_route(parentRefs=[{"name": "other"}])
    with pytest.raises(InvalidRoute, match="does not name the Gateway slipway/models"):
        cluster.gateway.set_route(OPEN, fence=Fence(1, 1))


def test_one_httproute_can_hold_the_rules_of_two_services() -> None:
    settings = replace(SETTINGS, http_routes=(("chat", "models"), ("chat-large", "models")))
    cluster = with_their_route()
    both = GatewayApi(KubeClient(cluster.transport), settings, taken_within_seconds=0.5)
    both.set_route(OPEN, fence=Fence(1, 1))
    large = RouteSpec("chat-large", STABLE, None, 0)
    both.set_route(large, fence=Fence(2, 1))
    both.set_route(replace(OPEN, candidate_percent=30), fence=Fence(1, 2))
    assert both.desired_route("chat-large") == large
    assert both.desired_route("chat") == replace(OPEN, candidate_percent=30)
    both.remove_route("chat", fence=Fence(1, 3))
    names = [one["name"] for one in cluster.route("models")["spec"]["rules"]]
    assert names == ["docs", "slipway.chat-large"]


# Where targets are.


def test_workers_in_another_namespace_are_named_with_it() -> None:
    cluster = Cluster(replace(SETTINGS, namespaces=("team-a",)))
    for target in (STABLE, CANARY):
        cluster.run_service(target.name, namespace="team-a")
    cluster.gateway.set_route(OPEN, fence=Fence(1, 1))
    refs = cluster.route()["spec"]["rules"][-1]["backendRefs"]
    assert {ref["namespace"] for ref in refs} == {"team-a"}


def test_a_target_is_the_service_of_its_name(cluster: Cluster) -> None:
    now = datetime.now(UTC)
    cluster.gateway.set_target(STABLE.name, NamedService("slipway", STABLE.name, 8000), observed_at=now)
    for place in (NamedService("kube-system", STABLE.name, 8000), NamedService("slipway", "other", 8000)):
        with pytest.raises(InvalidEndpoint, match="sends to the Service chat-r1"):
            cluster.gateway.set_target(STABLE.name, place, observed_at=now)
    assert cluster.gateway.ready(STABLE.name) == {WorkerEndpoint("10.1.0.1", 8000)}
    assert cluster.gateway.ready("nobody") == frozenset()


def test_a_cluster_that_does_not_answer_is_told_as_that(cluster: Cluster) -> None:
    transport = FakeTransport(cluster.server, user=ADMIN)
    transport.reachable = False
    cut = GatewayApi(KubeClient(transport), SETTINGS)
    for ask in (
        lambda: cut.set_route(OPEN, fence=Fence(1, 1)),
        lambda: cut.remove_route("chat", fence=Fence(1, 1)),
        lambda: cut.desired_route("chat"),
        lambda: cut.ready(STABLE.name),
        cut.refresh,
    ):
        with pytest.raises(GatewayUnreachable, match="does not answer"):
            ask()
    assert not cut.health().ok
