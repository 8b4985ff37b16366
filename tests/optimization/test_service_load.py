"""A benchmark under the load that a service has had."""

from typing import Any

import pytest
from django.utils import timezone

from benchmarks.load.scenario import scenario_of as validated
from clusters.models import Cluster
from common.actor import Actor
from common.fence import Fence
from gateway.history import hour_of
from gateway.load_hours import RecordedLoad
from gateway.models import LoadHour, Route
from gateway.routes import RouteSpec
from optimization.models import OptimizationRun
from optimization.service_load import scenario_of
from tests.cast import api, client_of
from tests.gateway.cast import set_route
from tests.gateway.test_abilities import deployment
from tests.optimization.test_pages import ORDER, ada

__all__ = ["ada"]
LENGTHS = [0, 0, 0, 0, 30, 0, 0, 10]
"""30 of 5 or 6 tokens, 10 of 13 to 16."""


def load(**fields: Any) -> RecordedLoad:
    given: dict[str, Any] = {"hours": 9, "requests": 40, "prompts": LENGTHS, "answers": LENGTHS}
    return RecordedLoad(**{**given, "per_second": 4.0, "in_flight": 6.0, "workers": 2.0, **fields})


def test_a_scenario_has_the_lengths_and_the_rate_of_one_worker() -> None:
    busy = validated(scenario_of(load()))
    assert (busy.arrivals, busy.rates, busy.requests) == ("poisson", (2.0,), 120)
    assert busy.input.bins == ((5, 30.0), (14, 10.0))
    calm = validated(scenario_of(load(per_second=0.01)))
    assert (calm.arrivals, calm.rates, calm.requests) == ("concurrency", (3,), 20)


@pytest.mark.django_db
def test_a_run_takes_the_load_of_a_service_of_its_team_once_enough_was_counted(ada: Any) -> None:
    browser = api(ada)
    order = {"team": "speech", **ORDER, "load_of": "talk"}

    def refusal() -> str:
        answer = browser.post("optimizations/", order)
        assert answer.status_code == 400
        assert answer.json()["errors"].keys() == {"load_of"}
        return str(answer.json()["errors"])

    assert "no service talk" in refusal()
    assert Cluster.objects.filter(name="local").exists()
    target = deployment("talk", {})
    set_route(
        RouteSpec("talk", target, None, 0), fence=Fence(1, 1), actor=Actor(name="ann", user_id=1, via="web")
    )
    assert "of 0 requests" in refusal()
    document = {
        "requests": 40,
        "prompts": LENGTHS,
        "answers": LENGTHS,
        "readings": 1,
        "in_flight": 2,
        "workers": 1,
    }
    LoadHour.objects.create(route=Route.objects.get(), hour=hour_of(timezone.now()), document=document)
    order["scenario"] = {"rates": [1]}
    assert "not both" in refusal()
    del order["scenario"]
    assert "talk</option>" in client_of(ada).get("/optimizations/+new/").content.decode()
    assert browser.post("optimizations/", order).status_code == 201
    made = OptimizationRun.objects.get().benchmark_order
    assert made["load_of"] == "talk"
    assert made["scenario"]["input"] == {"kind": "histogram", "bins": [[5, 30], [14, 10]]}
