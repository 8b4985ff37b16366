"""What a service's state says, and why: on its page, on Home, over REST and on the command line."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from clusters.models import Worker
from common.live.board import PUBLIC
from gateway.backends.fake import Behaviour
from gateway.history import minute_of, packed
from gateway.models import Route, TrafficReading
from releases import consumers
from releases.condition import ServiceCondition, ServiceObservation, StableWorkers, condition_of
from releases.selectors.services import conditions_now
from tests.cast import api, person
from tests.releases.world import Scene

pytestmark = pytest.mark.any_database


def observed(**fields: Any) -> ServiceObservation:
    return ServiceObservation(
        **({"has_stable": True, "is_releasing": False, "workers": StableWorkers(2, 2)} | fields)
    )


@pytest.mark.parametrize(
    ("seen", "state", "reason"),
    [
        (observed(), "serving", ""),
        (observed(workers=None), "serving", ""),
        (observed(is_releasing=True), "releasing", ""),
        (observed(has_stable=False, is_releasing=True), "starting", ""),
        (observed(has_stable=False), "down", "No version serves: the first release has not been promoted."),
        (observed(requests=1000, errors=290), "failing", "29 % of requests fail (5xx: 290 / 1,000)"),
        (observed(requests=1000, errors=45), "degraded", "4.5 % of requests fail (5xx: 45 / 1,000)"),
        (observed(requests=1000, errors=4), "serving", ""),
        # Too few to tell a share from.
        (observed(requests=19, errors=19), "serving", ""),
        (observed(requests=30, errors=4), "serving", ""),
        (
            observed(workers=StableWorkers(2, 1, lost=1, reason="chat-1: terminated by SIGKILL")),
            "degraded",
            "1 of 2 workers answer: chat-1: terminated by SIGKILL",
        ),
        (observed(workers=StableWorkers(2, 0)), "failing", "no worker answers (0 of 2)"),
        (observed(workers=StableWorkers(2, 2, stuck=1)), "degraded", "1 worker is stuck"),
        (observed(workers=StableWorkers(2, 2, saturated=1)), "serving", ""),
        (
            observed(workers=StableWorkers(2, 2, saturated=2, waiting=7)),
            "degraded",
            "all workers are saturated, 7 requests wait",
        ),
        (
            observed(gateway_problem="port 8081 does not answer."),
            "degraded",
            "the gateway has not taken the present route: port 8081 does not answer.",
        ),
        (
            observed(is_releasing=True, desired_percent=30, observed_percent=12.25),
            "degraded",
            "the candidate gets 12.2 % of the traffic, not 30 %",
        ),
        (
            observed(workers=StableWorkers(2, 1, lost=1), requests=100, errors=29, is_releasing=True),
            "failing",
            "29 % of requests fail (5xx: 29 / 100); 1 of 2 workers answer",
        ),
    ],
)
def test_the_state_of_a_service_and_its_reason(seen: ServiceObservation, state: str, reason: str) -> None:
    assert condition_of(seen) == ServiceCondition(state, reason)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, db: None) -> Scene:
    return Scene(monkeypatch)


def read_the_counts(scene: Scene, *, minutes_ago: int) -> None:
    route = Route.objects.get(service=scene.name)
    at = timezone.now() - timedelta(minutes=minutes_ago)
    counts = packed(scene.gateway.counts(scene.name))
    TrafficReading.objects.create(route=route, minute=minute_of(at), at=at, counts=counts)


def let_it_fail(scene: Scene, share: float) -> None:
    read_the_counts(scene, minutes_ago=2)
    scene.gateway.behave(scene.service.stable_deployment, Behaviour(error_share=share))
    scene.send(1000)


def kill_a_worker(scene: Scene) -> None:
    victim = Worker.objects.filter(deployment__name=scene.service.stable_deployment).first()
    assert victim
    Worker.objects.filter(pk=victim.pk).update(
        state="starting", restarts=1, reason="terminated by SIGKILL", state_since=timezone.now()
    )


def test_errors_and_a_killed_worker_are_told_on_every_page(scene: Scene, client: Client) -> None:
    eve = person("eve", **{scene.team.name: "developer"})
    client.force_login(eve)
    service = f"services/{scene.name}/"
    fine = api(eve).get(service).json()
    assert (fine["state"], fine["reason"]) == ("serving", "")
    assert "5xx" not in client.get("/").content.decode()

    let_it_fail(scene, 0.3)
    kill_a_worker(scene)
    told = api(eve).get(service).json()
    assert told["state"] == "failing"
    assert "% of requests fail (5xx:" in told["reason"]
    assert "1 of 2 workers answer" in told["reason"]
    (row,) = api(eve).get("services/").json()["results"]
    assert (row["state"], row["reason"]) == (told["state"], told["reason"])
    for path in ("/", "/services/", f"/services/{scene.name}/"):
        shown = client.get(path).content.decode()
        assert "Failing" in shown, path
        assert "1 of 2 workers answer" in shown, path


def test_only_who_can_do_something_finds_it_in_the_inbox(scene: Scene, client: Client) -> None:
    kill_a_worker(scene)
    client.force_login(person("vic", **{scene.team.name: "viewer"}))
    assert "1 of 2 workers answer" not in client.get("/").content.decode()
    client.force_login(person("eve", **{scene.team.name: "developer"}))
    assert "1 of 2 workers answer" in client.get("/").content.decode()


def test_a_list_of_services_costs_the_same_whatever_their_number(
    scene: Scene, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scene(monkeypatch)
    with django_assert_num_queries(6):
        assert len(conditions_now()) == 2


class Hub:
    def __init__(self) -> None:
        self.touched_names: list[str] = []

    def touched(self, name: str) -> None:
        self.touched_names.append(name)


@pytest.mark.django_db(transaction=True)
async def test_open_pages_look_again_when_the_condition_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from asgiref.sync import sync_to_async

    scene = await sync_to_async(Scene)(monkeypatch)
    hub = Hub()
    monkeypatch.setattr(consumers, "current_hub", lambda: hub)
    monkeypatch.setattr(consumers, "CONDITION_SECONDS", 0.0)
    topics = {"releases": consumers.ReleasesTopic(), f"service:{scene.service.pk}": consumers.ServiceTopic()}

    async def look() -> list[str]:
        hub.touched_names.clear()
        for name, topic in topics.items():
            assert PUBLIC in await topic.read(name.partition(":")[2])
        return list(hub.touched_names)

    assert await look() == []
    assert await look() == []
    await sync_to_async(kill_a_worker)(scene)
    assert await look() == list(topics)
    assert await look() == []
