"""Addresses of abilities at a Gateway of a cluster: one HTTPRoute over the Services of several services."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from common.fence import Fence
from gateway.errors import InvalidRoute
from gateway.routes import AbilityMember, AbilitySpec, RouteSpec, RouteTarget
from kube.resources import HTTP_ROUTES, Ref
from tests.gateway.gateway_api.worlds import Cluster, DataPlane

SMALL, LARGE, NEWER = (RouteTarget(f"{name}", f"{name}:v1") for name in ("small-1", "large-1", "large-2"))
CLOTH = AbilitySpec("cloth", (AbilityMember("small", 2), AbilityMember("large", 6, "large-2")))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for target in (SMALL, LARGE, NEWER):
        cluster.run_service(target.name)
    route(cluster, "small", SMALL)
    route(cluster, "large", LARGE, NEWER, 50)
    return cluster


def route(
    cluster: Cluster, name: str, stable: RouteTarget, candidate: RouteTarget | None = None, percent: int = 0,
    *, turn: int = 1,
) -> None:  # fmt: skip
    spec = RouteSpec(name, stable, candidate, percent, all_paths=True)
    cluster.gateway.set_route(spec, fence=Fence(1, turn))


def told(cluster: Cluster, specs: list[AbilitySpec], *, seconds_ago: float = 0.0) -> None:
    at = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    cluster.gateway.set_abilities(specs, observed_at=at)


def asked(cluster: Cluster, path: str, headers: dict[str, str] | None = None) -> Counter[str]:
    """Count the answers of 800 requests by their Service."""
    cluster.controller.tick()
    plane = DataPlane(cluster.controller)
    found = [plane.ask(path, headers or {}) for _ in range(800)]
    return Counter(one[0] for one in found if one is not None)


def test_requests_are_split_over_services_by_slots_and_the_share_of_a_candidate(cluster: Cluster) -> None:
    told(cluster, [CLOTH])
    got = asked(cluster, "/cloth/detect")
    expected = {"small-1": 200, "large-1": 300, "large-2": 300}
    assert got == pytest.approx(expected, abs=50)
    answer = DataPlane(cluster.controller).ask("/cloth/detect", {"x-release": "canary"})
    assert answer is not None
    _, path, headers = answer
    assert (path, "x-release" in headers, headers["x-forwarded-prefix"]) == ("/detect", False, "/cloth")
    assert set(asked(cluster, "/small/detect")) == {"small-1"}

    route(cluster, "large", NEWER, turn=2)
    told(cluster, [AbilitySpec("cloth", (AbilityMember("large", 6),))])
    assert asked(cluster, "/cloth/detect") == {"large-2": 800}
    told(cluster, [])
    assert asked(cluster, "/cloth/detect") == {}
    assert set(asked(cluster, "/large/detect")) == {"large-2"}


def test_what_stands_is_not_written_again_and_what_others_changed_is(cluster: Cluster) -> None:
    told(cluster, [CLOTH])
    before = cluster.route("slipway.ability.cloth")
    told(cluster, [CLOTH])
    cluster.gateway.refresh()
    assert cluster.route("slipway.ability.cloth")["metadata"] == before["metadata"]
    told(cluster, [AbilitySpec("cloth", CLOTH.members[:1])], seconds_ago=60)  # an older look
    assert cluster.route("slipway.ability.cloth")["metadata"] == before["metadata"]
    others = {"metadata": {"resourceVersion": before["metadata"]["resourceVersion"]}, "spec": {"rules": []}}
    others["spec"]["rules"] = [{"matches": [{"path": {"type": "PathPrefix", "value": "/other"}}]}]
    cluster.client.patch(Ref(HTTP_ROUTES, "slipway.ability.cloth", cluster.settings.namespace), others)
    told(cluster, [CLOTH])
    assert cluster.route("slipway.ability.cloth")["spec"]["rules"] == before["spec"]["rules"]


def test_an_ability_of_more_services_than_a_rule_takes_is_refused(cluster: Cluster) -> None:
    for number in range(17):
        cluster.run_service(f"one-{number}")
        route(cluster, f"one{number}", RouteTarget(f"one-{number}", "one:v1"))
    many = tuple(AbilityMember(f"one{number}", 1) for number in range(17))
    with pytest.raises(InvalidRoute, match="17 versions"):
        told(cluster, [AbilitySpec("many", many)])


def test_an_httproute_of_somebody_else_is_not_taken_over(cluster: Cluster) -> None:
    theirs = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "slipway.ability.cloth", "namespace": cluster.settings.namespace},
        "spec": {"rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/cloth"}}]}]},
    }
    cluster.client.create(theirs)
    with pytest.raises(InvalidRoute, match="not Slipway's"):
        told(cluster, [CLOTH])
