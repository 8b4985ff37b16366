"""Routes that lead to InferencePools: made for each version, weighed, and gone when nothing leads there."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from common.fence import Fence
from gateway.backends.gateway_api.backend import GatewayApi
from gateway.backends.gateway_api.settings import EndpointPicker, GatewayApiSettings
from gateway.errors import InvalidGateway, InvalidRoute
from gateway.routes import RouteSpec, RouteTarget
from kube.fake.inference import inference_pool
from kube.resources import INFERENCE_POOLS, Ref
from tests.gateway.gateway_api.worlds import SETTINGS, Cluster

STABLE, CANARY = RouteTarget("chat-r1", "chatty:1"), RouteTarget("chat-r2", "chatty:2")
POOLS = replace(SETTINGS, inference_pools=EndpointPicker(picker="{pool}-epp"))
SPEC = RouteSpec("chat", STABLE, CANARY, 10)


def cluster(*, extension: bool = True) -> Cluster:
    made = Cluster(POOLS)
    if extension:
        made.server.add_kind(inference_pool())
    for target in (STABLE, CANARY):
        made.run_service(target.name)
    return made


def pools(made: Cluster) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in made.client.list(INFERENCE_POOLS).items}


def refs(made: Cluster) -> list[tuple[str, str, int]]:
    (split,) = [one for one in made.route()["spec"]["rules"] if one["name"] == "slipway.chat"]
    return [(one["kind"], one["name"], one["weight"]) for one in split["backendRefs"]]


def test_the_canary_is_split_between_two_pools_whose_picker_is_the_users() -> None:
    made = cluster()
    made.gateway.set_route(SPEC, fence=Fence(1, 1))
    assert refs(made) == [("InferencePool", "chat-r1", 90), ("InferencePool", "chat-r2", 10)]
    pool = pools(made)["chat-r2"]
    assert pool["selector"] == {"matchLabels": {"slipway.io/deployment": "chat-r2"}}
    assert pool["targetPorts"] == [{"number": 8000}]
    picker = pool["endpointPickerRef"]
    assert (picker["name"], picker["port"], picker["failureMode"]) == (
        "chat-r2-epp",
        {"number": 9002},
        "FailClose",
    )
    assert made.gateway.desired_route("chat") == SPEC


def test_copies_go_to_the_service() -> None:
    made = cluster()
    made.gateway.set_route(replace(SPEC, candidate_percent=0, mirror_percent=100), fence=Fence(1, 1))
    (split,) = [one for one in made.route()["spec"]["rules"] if one["name"] == "slipway.chat"]
    (copies,) = [one["requestMirror"] for one in split["filters"] if one["type"] == "RequestMirror"]
    assert copies["backendRef"]["kind"] == "Service"


def test_a_route_that_led_to_services_leads_to_pools_when_the_setting_says_so() -> None:
    made = cluster()
    services = GatewayApi(made.gateway._client, SETTINGS, taken_within_seconds=0.3, look_every_seconds=0.001)
    services.set_route(SPEC, fence=Fence(1, 1))
    assert {kind for kind, *_ in refs(made)} == {"Service"}
    assert made.gateway.desired_route("chat") is None
    made.gateway.set_route(SPEC, fence=Fence(1, 1))
    assert {kind for kind, *_ in refs(made)} == {"InferencePool"}


def test_a_pool_that_somebody_removed_is_made_again() -> None:
    made = cluster()
    made.gateway.set_route(SPEC, fence=Fence(1, 1))
    made.client.delete(Ref(INFERENCE_POOLS, "chat-r1", "slipway"))
    assert made.gateway.desired_route("chat") is None
    made.gateway.set_route(SPEC, fence=Fence(1, 1))
    assert pools(made).keys() == {"chat-r1", "chat-r2"}


def test_pools_of_others_stay_and_ours_go_when_no_route_leads_there() -> None:
    made = cluster()
    theirs = {"name": "theirs", "namespace": "slipway", "labels": {"app": "theirs"}}
    picker = {"name": "epp", "port": {"number": 9002}}
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "targetPorts": [{"number": 1}],
        "endpointPickerRef": picker,
    }
    pool = {"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "spec": spec}
    made.client.create(pool | {"metadata": theirs})
    made.gateway.set_route(SPEC, fence=Fence(1, 1))
    made.gateway.set_route(RouteSpec("chat", CANARY, None, 0), fence=Fence(1, 2))
    born = datetime.fromisoformat(
        made.client.get(Ref(INFERENCE_POOLS, "chat-r1", "slipway"))["metadata"]["creationTimestamp"]
    )

    def refresh_after(time: timedelta) -> None:
        GatewayApi(made.gateway._client, POOLS, clock=lambda: born + time).refresh()

    refresh_after(timedelta(minutes=1))
    assert pools(made).keys() == {"theirs", "chat-r1", "chat-r2"}
    refresh_after(timedelta(hours=1))
    assert pools(made).keys() == {"theirs", "chat-r2"}


def test_a_pool_of_somebody_else_under_the_name_is_left_alone_and_the_route_refused() -> None:
    made = cluster()
    made.gateway.set_route(SPEC, fence=Fence(1, 1))
    ref = Ref(INFERENCE_POOLS, "chat-r2", "slipway")
    made.client.patch(ref, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "theirs"}}})
    with pytest.raises(InvalidRoute, match="is not Slipway's"):
        made.gateway.set_route(replace(SPEC, candidate_percent=20), fence=Fence(1, 2))
    assert refs(made)[1][2] == 10


def test_without_the_extension_the_route_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidRoute, match="Gateway API Inference Extension"):
        cluster(extension=False).gateway.set_route(SPEC, fence=Fence(1, 1))


@pytest.mark.parametrize(
    "given",
    ["epp", {}, {"picker": "Not A Name"}, {"picker": "epp", "port": 0}, {"picker": "e", "failure_mode": "x"}],
)
def test_a_picker_that_names_no_service_is_refused(given: object) -> None:
    with pytest.raises(InvalidGateway, match="inference_pools"):
        GatewayApiSettings.read({"gateway": "models", "inference_pools": given})
