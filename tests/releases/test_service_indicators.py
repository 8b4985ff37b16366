"""Indicators that others than workers count: figures that a shop pushes, counters in a Prometheus."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from common.models import AuditRecord
from releases.judge.evidence import JudgeEvidence
from releases.models import PushedCount, Release, ServiceIndicator
from releases.selectors.plans import plan_of
from releases.services.indicators import define_indicator
from releases.services.plan import save_plan
from releases.states import ReleaseState as S
from tests.cast import SYSTEM, Api, api
from tests.clusters.world import version_of
from tests.gateway.prometheus_server import Prometheus, serving
from tests.releases.browsing import as_person, text_of
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

HOLD = {**SWIFT["steps"][4], "seconds": 3600}
PLAN = {
    **SWIFT,
    "steps": [*SWIFT["steps"][:4], HOLD, *SWIFT["steps"][5:]],
    "judge": {"indicators": {"refunds": {}}},
}


@pytest.fixture
def shop(scene: Scene) -> Api:
    """Over REST, ada, whose service is judged by `refunds`."""
    save_plan(actor=SYSTEM, team=scene.team, name="shop", body=PLAN)
    return api(User.objects.get(username="ada"))


def at_weight(scene: Scene) -> None:
    """Start a release and let it go on until its weight is set, and a minute more."""
    scene.start(plan_name="shop")
    scene.run_until(lambda: scene.release.steps.get(index=3).state == "done")
    scene.run_for(1)


def minute(scene: Scene, version: Any, number: int, *, events: int, bad: int) -> dict[str, Any]:
    """Counts of a minute after the weight was set."""
    at = scene.release.steps.get(index=3).ended_at + timedelta(seconds=10 * number)
    return {"version": str(version), "at": at.isoformat(), "seconds": 10, "events": events, "bad": bad}


def evidence_of(scene: Scene) -> JudgeEvidence:
    scene.release.refresh_from_db()
    return JudgeEvidence.from_dict(scene.release.evidence)


def refunds(scene: Scene) -> tuple[int, ...]:
    return tuple(evidence_of(scene).indicators["indicator:refunds"].totals.to_list())


def test_pushed_figures_judge_once_however_late_and_often_they_come(scene: Scene, shop: Api) -> None:
    path = f"services/{scene.name}/indicators/refunds/"
    assert shop.put(path, {"source": "pushed", "description": "Refunded orders"}).status_code == 200
    at_weight(scene)
    scene.run_for(40)
    ours = [minute(scene, scene.v1, one, events=200, bad=4) for one in range(3)]
    theirs = [minute(scene, scene.v2, one, events=100, bad=2) for one in range(3)]

    assert shop.post(f"{path}counts/", {"counts": [theirs[1], ours[1]]}).json()["kept"] == 2
    scene.run_for(2)
    assert refunds(scene) == (100, 2, 200, 4)
    again = shop.post(f"{path}counts/", {"counts": [theirs[1], theirs[0], ours[2]]}).json()
    assert (again["kept"], again["known"]) == (2, 1)
    scene.run_for(2)
    assert refunds(scene) == (100, 2, 200, 4), "one side alone of a stretch says nothing"
    changed = shop.post(f"{path}counts/", {"counts": [{**theirs[1], "bad": 90}]}).json()
    assert [one["bad"] for one in changed["different"]] == [2]
    before = (
        minute(scene, scene.v1, -30, events=100, bad=50),
        minute(scene, scene.v2, -30, events=100, bad=50),
    )
    shop.post(f"{path}counts/", {"counts": [*before, ours[0], theirs[2]]})
    scene.run_for(2)
    assert refunds(scene) == (300, 6, 600, 12), "late ones count; those from before the canary do not"

    shop.post(f"{path}counts/", {"counts": [minute(scene, scene.v1, 3, events=200, bad=4),
                                            minute(scene, scene.v2, 3, events=100, bad=60)]})  # fmt: skip
    ended = scene.run_until_state(S.ROLLED_BACK)
    assert ended.outcome.startswith("Candidate refunds: 66 / 400")
    assert PushedCount.objects.filter(judged_in=ended).count() == 8


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"bad": 11}, "bad is a number"),
        ({"seconds": 0}, "1 to 3600"),
        ({"at": "2036-01-01T00:00:00Z"}, "not over yet"),
        ({"version": "other:v1"}, "not a version of"),
    ],
)
def test_a_push_that_makes_no_sense_is_refused(scene: Scene, shop: Api, change: Any, named: str) -> None:
    version_of(scene.team, "other:v1")
    define_indicator(scene.service, actor=SYSTEM, name="refunds", source="pushed")
    count = {"version": "story:v1", "at": "2026-01-01T00:00:00Z", "seconds": 60, "events": 10, "bad": 1}
    answer = shop.post(f"services/{scene.name}/indicators/refunds/counts/", {"counts": [{**count, **change}]})
    assert answer.status_code == 400
    assert named in str(answer.json())
    assert not PushedCount.objects.exists()


def test_counters_of_a_prometheus_are_compared_and_what_it_does_not_know_is_no_zero(
    scene: Scene, shop: Api
) -> None:
    prometheus = Prometheus()

    def scrape(orders: int = 10, **bad: int) -> None:
        """`orders`: as many times of the candidate's as are refunded."""
        times = {"v1": 10, "v2": orders}
        lines = [
            f'orders_total{{release="story:{name}"}} {times[name] * total}' for name, total in bad.items()
        ]
        lines += [f'refunds_total{{release="story:{name}"}} {total}' for name, total in bad.items()]
        prometheus.scrape("\n".join(lines) + "\n", job="shop")
        scene.run_for(16)

    with serving(prometheus) as url:
        define = {
            "source": "prometheus",
            "all_query": 'orders_total{release="$version"}',
            "bad_query": 'refunds_total{release="$version"}',
            "url": url,
        }
        path = f"services/{scene.name}/indicators/refunds/"
        blind = shop.put(path, {**define, "all_query": "orders_total{}"})
        assert "$version" in blind.json()["errors"]["all_query"][0]
        assert shop.put(path, define).status_code == 200
        at_weight(scene)
        scene.run_for(62)  # what Prometheus knows may be from before the weight until then
        scrape(v1=1000)
        scrape(v1=1100)
        assert refunds(scene) == (0, 0, 0, 0), "the candidate has no series"
        scrape(v1=1200, v2=500)
        assert refunds(scene) == (0, 0, 0, 0), "a series that is new counts from now on"
        scrape(v1=1300, v2=600)
        assert refunds(scene) == (1000, 100, 1000, 100)
        scrape(v1=1350, v2=10)
        assert refunds(scene) == (1000, 100, 1000, 100), "a counter that began anew is no decrease"
        scrape(v1=1450, v2=110)
        assert refunds(scene) == (2000, 200, 2000, 200)
        prometheus.answers.extend([(503, b"no")] * 40)
        scene.run_for(16)
        prometheus.answers.clear()
        assert scene.state() == S.RUNNING
        scrape(v1=1460, v2=200, orders=2)
        scrape(v1=1560, v2=500, orders=2)
        ended = scene.run_until_state(S.ROLLED_BACK)
    assert ended.outcome.startswith("Candidate refunds: ")


def test_people_define_indicators_on_a_page(scene: Scene, shop: Api) -> None:
    client: Client = as_person("ada", scene)
    path = f"/services/{scene.name}/indicators/"
    assert "No indicators" in text_of(client, path)
    assert client.post(path, {"name": "Refunds!", "source": "pushed", "reason": ""}).status_code == 422
    client.post(path, {"name": "refunds", "source": "pushed", "description": "Refunded", "reason": "shop"})
    assert "None pushed yet" in text_of(client, path)
    assert "refunds" in text_of(client, f"/services/{scene.name}/")
    client.post(f"{path}refunds/remove/", {"reason": "over"})
    assert not ServiceIndicator.objects.exists()
    actions = AuditRecord.objects.filter(action__startswith="service.indicator").order_by("seq")
    assert [one.action.rpartition(".")[2] for one in actions] == ["define", "remove"]
    assert actions[0].detail["indicator"] == "refunds"


def test_a_plan_may_judge_what_the_service_has_though_its_workers_declare_nothing(
    scene: Scene, shop: Api
) -> None:
    body = {"service": scene.name, "version": "v2", "plan": "shop"}
    scene.follow("shop")
    refused = shop.post("releases/", body)
    assert "Add it to the service" in str(refused.json())
    define_indicator(scene.service, actor=SYSTEM, name="refunds", source="pushed")
    assert shop.post("releases/", body).status_code == 202


def test_a_plan_may_judge_truncated_answers_which_workers_of_language_models_count(
    scene: Scene, shop: Api
) -> None:
    plan = {**PLAN, "judge": {"indicators": {"truncated": {}}}}
    save_plan(actor=SYSTEM, team=scene.team, name="whole", body=plan)
    scene.follow("whole")
    body = {"service": scene.name, "version": "v2", "plan": "whole"}
    assert shop.post("releases/", body).status_code == 202
    assert list(plan_of(Release.objects.get(version=scene.v2)).judge.indicators) == ["truncated"]
