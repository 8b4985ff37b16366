"""One address for the workers of several services, by what they say that they can do."""

from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Deployment, Worker
from common.actor import Actor
from common.fence import Fence
from gateway.backends.fake import FakeGateway
from gateway.models import AbilityRoute
from gateway.routes import AbilityMember, AbilitySpec, RouteSpec, RouteTarget, WorkerEndpoint
from gateway.services.abilities import sync_abilities
from tests.cast import Api, api, client_of, person, team
from tests.clusters.test_fleet import beat
from tests.clusters.world import version_of
from tests.gateway.cast import cluster, gateway_of, set_route

pytestmark = pytest.mark.django_db
ANN = Actor(name="ann", user_id=1, via="web")


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The last heartbeats of workers."""
    heard: dict[str, Any] = {}
    monkeypatch.setattr("clusters.heartbeat_records.latest", lambda _: heard)
    return heard


@pytest.fixture
def developer(gateway: FakeGateway) -> Api:
    return api(person("dina", speech="developer"))


def deployment(name: str, beats: dict[str, Any], *, of: str = "speech", **heartbeat: Any) -> RouteTarget:
    """A deployment with one ready worker."""
    label = f"{name}:v1"
    row = Deployment.objects.create(
        name=name,
        cluster=cluster(),
        team=team(of),
        service=name,
        version=version_of(team(of), label),
        version_label=label,
        engine="app",
        replicas=1,
        slots=1,
        observed_at=timezone.now(),
    )
    place = {"address": "10.0.0.1", "port": 8000 + row.pk, "state": "ready", "state_since": timezone.now()}
    Worker.objects.create(deployment=row, uid=f"{name}-0", name=f"{name}-0", **place)
    beats[f"{name}-0"] = beat(**heartbeat)
    return RouteTarget(name, label)


def routed(name: str, stable: RouteTarget, candidate: RouteTarget | None = None, percent: int = 0) -> None:
    spec = RouteSpec(name, stable, candidate, percent, all_paths=True)
    set_route(spec, fence=Fence(1, 1), actor=ANN)


def test_an_ability_leads_to_the_workers_of_a_team_that_have_it(
    developer: Api, beats: dict[str, Any], gateway: FakeGateway
) -> None:
    small = deployment("small-1", beats, abilities=("cloth", "tiles"), slots=2)
    large = deployment("large-1", beats, abilities=("cloth",), slots=6)
    newer = deployment("large-2", beats, abilities=("cloth",), slots=6)
    tiles = deployment("tiles-1", beats, abilities=("tiles",))
    theirs = deployment("theirs-1", beats, of="vision", abilities=("cloth",))
    for name, target in (("small", small), ("tiles", tiles), ("theirs", theirs)):
        routed(name, target)
    routed("large", large, newer, 10)

    made = developer.post("abilities/", {"name": "any-cloth", "ability": "cloth", "team": "speech"})
    assert (made.status_code, made.json()["state"]) == (201, "pending")
    sync_abilities(gateway_of())
    shown = developer.get("abilities/any-cloth/").json()
    assert (shown["state"], shown["services"]) == ("serving", ["large", "small"])
    assert (shown["workers"], shown["slots"]) == (2, 8)
    members = (AbilityMember("large", 6, "large-2"), AbilityMember("small", 2))
    spec = AbilitySpec("any-cloth", members)
    assert gateway.abilities == {"any-cloth": spec}
    told = gateway.endpoints(spec.target)
    assert {(one.slots, one.serves) for one in told} == {(6, large), (2, small)}

    # Workers that nobody has heard lately keep what they had.
    beats.pop("small-1-0")
    sync_abilities(gateway_of())
    assert gateway.abilities == {"any-cloth": spec}
    # One that is taken out gets nothing by the ability, either, as soon as its deployment is told.
    Worker.objects.filter(deployment__name="large-1").update(state="stopping")
    sync_abilities(gateway_of())
    assert gateway.endpoints(spec.target) == {WorkerEndpoint("10.0.0.1", _port_of("small-1"))}

    assert "any-cloth" in client_of(person("ed", speech="viewer")).get("/abilities/").content.decode()
    assert developer.delete("abilities/any-cloth/").status_code == 204
    sync_abilities(gateway_of())
    assert gateway.abilities == {}


def _port_of(name: str) -> int:
    return Worker.objects.values_list("port", flat=True).get(deployment__name=name) or 0


def test_an_ability_that_no_worker_has_says_which_there_are(developer: Api, beats: dict[str, Any]) -> None:
    routed("small", deployment("small-1", beats, abilities=("cloth",)))
    assert developer.post("abilities/", {"name": "silk", "team": "speech"}).status_code == 201
    sync_abilities(gateway_of())
    shown = developer.get("abilities/silk/").json()
    assert shown["state"] == "no_workers"
    assert "Registered: cloth" in shown["problem"]
    page = client_of(person("ed", speech="viewer")).get("/abilities/").content.decode()
    assert "Registered: cloth" in page


@pytest.mark.parametrize(
    ("wish", "status", "fault"),
    [
        ({"name": "small"}, 409, "service"),
        ({"name": "a/b"}, 400, "name"),
        ({"name": "silk", "ability": "Silk!"}, 400, "ability"),
        ({"name": "silk", "cluster": "nowhere"}, 400, "cluster"),
        ({"name": "silk", "team": "vision"}, 400, "team"),
    ],
)
def test_what_cannot_be_an_address_is_refused(
    developer: Api, beats: dict[str, Any], wish: dict[str, str], status: int, fault: str
) -> None:
    routed("small", deployment("small-1", beats))
    answer = developer.post("abilities/", {"team": "speech"} | wish)
    assert (answer.status_code, fault in answer.content.decode()) == (status, True), answer.content
    assert not AbilityRoute.objects.exists()
