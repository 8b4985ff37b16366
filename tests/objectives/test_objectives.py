"""Objectives of services: from the gateway's counts to the budget on the page, by REST and as alerts."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from alerts.models import RaisedAlert
from alerts.services.evaluation import apply_results, make_checks
from common.reconcile import kernel
from gateway.backends.fake import Behaviour
from gateway.history import minute_of, packed
from gateway.models import Route, TrafficReading
from objectives.models import ObjectiveCount, ServiceObjective
from tests.cast import Api, api, person
from tests.releases.world import Scene

pytestmark = pytest.mark.any_database


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, db: None) -> Scene:
    return Scene(monkeypatch)


@pytest.fixture
def ada(scene: Scene) -> Api:
    return api(person("ola", **{scene.team.name: "developer"}))


def read_the_counts(scene: Scene, *, minutes_ago: int) -> None:
    route = Route.objects.get(service=scene.name)
    at = timezone.now() - timedelta(minutes=minutes_ago)
    counts = packed(scene.gateway.counts(scene.name))
    TrafficReading.objects.create(route=route, minute=minute_of(at), at=at, counts=counts)


def answer(scene: Scene, **behaviour: float) -> None:
    """A thousand requests a minute in the last minutes."""
    scene.gateway.behave(scene.service.stable_deployment, Behaviour(**behaviour))
    for minutes_ago in (4, 3, 2, 1):
        read_the_counts(scene, minutes_ago=minutes_ago)
        scene.send(1000)


def count() -> None:
    row = ObjectiveCount.objects.get()
    kernel.wake(row)
    kernel.advance("objectives.objectivecount", row.pk)


def objective(scene: Scene, who: Api, **fields: object) -> int:
    wanted = {"name": "up", "service": scene.name, "target_percent": 99.9} | fields
    made = who.post("objectives/", wanted)
    assert made.status_code == 201, made.content
    return int(made.json()["id"])


def open_alerts() -> dict[str, str]:
    rows = RaisedAlert.objects.filter(check_name__startswith="SlipwayErrorBudget").exclude(state="resolved")
    return {row.check_name: row.address for row in rows}


def test_failures_use_the_budget_and_a_fast_burn_is_an_alert_on_the_services_page(
    scene: Scene, ada: Api, client: Client
) -> None:
    pk = objective(scene, ada)
    answer(scene, error_share=0.03)
    count()

    budget = ada.get(f"objectives/{pk}/").json()["budget"]
    assert budget["requests"] == 3000
    assert 40 < budget["bad"] < 140
    assert budget["remaining"] == pytest.approx(1 - budget["bad"] / 3)
    assert budget["burn_1h"] == budget["burn_5m"] == pytest.approx(budget["bad"] / 3)

    apply_results(make_checks())
    page = f"/services/{scene.name}/"
    assert open_alerts() == dict.fromkeys(
        ("SlipwayErrorBudgetBurnsFast", "SlipwayErrorBudgetBurnsSlowly", "SlipwayErrorBudgetSpent"), page
    )
    client.force_login(person("eve", **{scene.team.name: "viewer"}))
    for address in (page, "/objectives/", f"/objectives/{pk}/"):
        assert f"{budget['bad']} / 3,000" in client.get(address).content.decode()

    read_the_counts(scene, minutes_ago=0)
    counted = ServiceObjective.objects.get().counted_until
    count()
    assert ada.get(f"objectives/{pk}/").json()["budget"]["requests"] == 4000
    count()
    assert ServiceObjective.objects.get().counted_until != counted
    assert ada.get(f"objectives/{pk}/").json()["budget"]["requests"] == 4000, "counted twice"


def test_an_objective_of_latency_counts_slow_answers_and_anew_when_its_limit_changes(
    scene: Scene, ada: Api
) -> None:
    pk = objective(scene, ada, latency_ms=1000)
    answer(scene, median_ms=20_000)
    count()
    assert ada.get(f"objectives/{pk}/").json()["budget"]["level_percent"] == 0

    assert ada.patch(f"objectives/{pk}/", {"latency_ms": 80_000}).status_code == 200
    count()
    assert ada.get(f"objectives/{pk}/").json()["budget"]["level_percent"] == 100


def test_an_objective_that_makes_no_sense_is_refused_by_field(scene: Scene, ada: Api) -> None:
    for wrong, field in (
        ({"target_percent": 100}, "target_percent"),
        ({"latency_ms": 333}, "latency_ms"),
        ({"service": "none"}, "service"),
        ({"team": "others"}, "team"),
        ({"window_days": 90}, "window_days"),
    ):
        given = {"name": "up", "service": scene.name, "target_percent": 99.9} | wrong
        refused = ada.post("objectives/", given)
        assert (refused.status_code, list(refused.json()["errors"])) == (400, [field])


def test_a_person_makes_changes_and_deletes_one_in_the_browser(scene: Scene, client: Client) -> None:
    client.force_login(person("ola", **{scene.team.name: "developer"}))
    given = {"name": "up", "service": scene.name, "target_percent": 99.5, "latency_ms": "", "window_days": 7}
    made = client.post("/objectives/+new/", given)
    row = ServiceObjective.objects.get()
    assert made.url == f"/objectives/{row.pk}/"
    client.post(f"{made.url}settings/", given | {"target_percent": 99, "latency_ms": "250"})
    row.refresh_from_db()
    assert (row.target_percent, row.latency_ms, row.window_days) == (99, 250, 7)
    client.post(f"{made.url}delete/", {"reason": "A trial."})
    assert not ServiceObjective.objects.exists()


def test_files_hold_objectives(scene: Scene, ada: Api) -> None:
    spec = {"service": scene.name, "target_percent": 99.9, "window_days": 30}
    wanted = {"team": scene.team.name, "documents": [{"kind": "objective", "name": "up", "spec": spec}]}
    assert ada.post("configuration/apply/", wanted).status_code == 200
    spec["target_percent"] = 99.5
    assert ada.post("configuration/apply/", wanted).json()["results"][0]["action"] == "changed"
    assert ServiceObjective.objects.get().target_percent == 99.5
