"""What clients used, by day, team, service, version and key; budgets for it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.models import Deployment, Gpu, Node, Worker
from common.fence import Fence
from gateway.backends.fake import FakeGateway
from gateway.client_access import ClientCounts
from gateway.history import minute_of, packed
from gateway.models import ClientKey, Route, TrafficReading
from gateway.routes import RouteSpec, RouteTarget
from gateway.services.client_keys import create_key
from gpu_health.models import GpuPrices
from tests.cast import SYSTEM, Api, api, client_of, person, team
from tests.clusters.world import version_of
from tests.gateway.cast import cluster, set_route
from usage.alert_checks import ALERT_CHECKS
from usage.models import Budget, UsageDay, UsageMeter
from usage.services import create_budget, record_usage

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPAN = "since=2026-11-01&until=2026-11-30"


@pytest.fixture
def route(gateway: FakeGateway) -> Route:
    Deployment.objects.create(
        name="chat-1",
        cluster=cluster(),
        team=team("speech"),
        service="chat",
        version=version_of(team("speech"), "chat:v1"),
        version_label="chat:v1",
        engine="app",
        replicas=1,
        slots=1,
        resources={"gpus_per_worker": 2},
    )
    spec = RouteSpec("chat", RouteTarget("chat-1", "chat:v1"), None, 0)
    return set_route(spec, fence=Fence(1, 1), actor=SYSTEM)


@pytest.fixture
def developer() -> Api:
    return api(person("dina", speech="developer"))


def reading(route: Route, minutes: int, *, epoch: str = "1", **keys: ClientCounts) -> None:
    """`keys`: `k0` for requests without a key."""
    counted = {key.removeprefix("k"): list(counts.as_numbers()) for key, counts in keys.items()}
    at = NOON + timedelta(minutes=minutes)
    clients = {"epoch": epoch, "targets": {"chat-1": counted}}
    TrafficReading.objects.create(route=route, minute=minute_of(at), at=at, counts={}, clients=clients)


def meter(minutes: int) -> None:
    row = UsageMeter.objects.get()
    columns = record_usage(row, NOON + timedelta(minutes=minutes))
    UsageMeter.objects.update(**columns)


def rows(developer: Api, by: str, more: str = "") -> list[dict[str, Any]]:
    answer = developer.get(f"usage/?{SPAN}&by={by}{more}")
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def test_each_request_is_counted_once_over_restarts_of_the_gateway_and_of_the_meter(
    route: Route, developer: Api
) -> None:
    meter(0)
    reading(route, 0, k0=ClientCounts(10, 1, 0, 100, 50))
    reading(route, 1, k0=ClientCounts(15, 1, 2, 160, 80))
    reading(route, 2, epoch="2", k0=ClientCounts(4, 0, 0, 40, 20))
    meter(4)
    meter(4)
    meter(5)

    (row,) = rows(developer, "service")

    # The first reading is what was there: its counts are of a time that the meter knows.
    assert (row["requests"], row["refused"], row["prompt_tokens"], row["completion_tokens"]) == (
        19,
        2,
        200,
        100,
    )


def test_workers_behind_other_gateways_count_their_tokens_each_by_itself(
    route: Route, developer: Api
) -> None:
    def told(minutes: int, **processes: tuple[int, int, int]) -> None:
        at = NOON + timedelta(minutes=minutes)
        counts = {name: ["chat-1", one[0], 0, 0, *one[1:]] for name, one in processes.items()}
        given = {"route": route, "minute": minute_of(at), "at": at, "counts": {}}
        TrafficReading.objects.create(**given, clients={"processes": counts})

    told(0, a=(1000, 9000, 9000))
    meter(0)
    told(1, a=(1010, 9100, 9050), b=(500, 5000, 5000))
    told(2, b=(505, 5020, 5010))
    told(3, a=(1012, 9120, 9060), b=(506, 5025, 5015))
    told(4, a=(1013, 9130, 9065), b=(506, 5025, 5015))
    meter(5)

    (row,) = rows(developer, "service")

    # Worker `a` was not heard at minute 2: what it counted until minute 3 is not counted, and nothing twice.
    assert (row["requests"], row["prompt_tokens"], row["completion_tokens"]) == (
        10 + 5 + 1 + 1,
        100 + 20 + 5 + 10,
        50 + 10 + 5 + 5,
    )


def test_usage_is_told_by_key_version_and_day_to_members_of_the_team_alone(
    route: Route, developer: Api
) -> None:
    key = create_key(actor=SYSTEM, team=team("speech"), name="shop").key
    meter(0)
    reading(route, 1, k0=ClientCounts(1), **{f"k{key.pk}": ClientCounts(5, 0, 0, 50, 5)})
    reading(route, 60 * 24 + 1, k0=ClientCounts(1), **{f"k{key.pk}": ClientCounts(7, 0, 0, 70, 7)})
    meter(60 * 24 + 5)
    ClientKey.objects.all().delete()

    assert {row["key"]: row["requests"] for row in rows(developer, "key")} == {"": 1, "shop": 7}
    assert [(row["day"], row["requests"]) for row in rows(developer, "day", "&key=shop")] == [
        ("2026-11-20", 5),
        ("2026-11-21", 2),
    ]
    assert rows(developer, "version")[0]["version"] == "chat:v1"
    assert rows(api(person("otto", vision="developer")), "service") == []


def test_a_gateway_that_knows_no_keys_counts_requests(
    route: Route, developer: Api, gateway: FakeGateway
) -> None:
    meter(0)
    gateway.send("chat", 6)
    counts = packed(gateway.counts("chat"))
    at = NOON + timedelta(minutes=1)
    TrafficReading.objects.create(route=route, minute=minute_of(at), at=at, counts=counts)
    meter(3)

    assert rows(developer, "service")[0]["requests"] == 6


def test_gpus_that_workers_hold_cost_what_an_hour_of_them_costs(route: Route, developer: Api) -> None:
    node = Node.objects.create(cluster=cluster(), uid="n1", name="n1", seen_at=NOON)
    Gpu.objects.create(cluster=cluster(), node=node, uuid="g1", index=0, name="NVIDIA H100")
    prices = [{"cluster": "", "gpu_model": "H100", "per_hour": "3"}]
    GpuPrices.objects.create(pk=GpuPrices.ONLY, currency="USD", prices=prices)
    Worker.objects.create(
        deployment=Deployment.objects.get(),
        uid="w",
        name="w",
        node=node,
        state="ready",
        state_since=NOON,
    )

    for minute in range(0, 31):
        meter(minute)
    meter(300)  # nobody looked for hours: five minutes are counted

    (row,) = rows(developer, "service")
    assert row["gpu_hours"] == pytest.approx(2 * 35 / 60, abs=0.01)
    assert row["cost"] == pytest.approx(3 * 2 * 35 / 60, abs=0.01)


def test_a_budget_warns_and_is_spent_and_begins_anew_with_the_month(route: Route) -> None:
    create_budget(
        actor=SYSTEM, team=team("speech"), name="chat", service="chat", measure="tokens", amount=100
    )
    meter(0)

    def found() -> list[str]:
        return [check.name for check in ALERT_CHECKS for _ in check.find()]

    assert found() == []
    reading(route, 1, k0=ClientCounts(1, 0, 0, 60, 25))
    meter(3)
    assert found() == ["SlipwayBudgetNear"]
    reading(route, 4, k0=ClientCounts(2, 0, 0, 80, 45))
    meter(6)
    assert found() == ["SlipwayBudgetSpent"]
    meter(60 * 24 * 20)
    assert found() == []


def test_the_page_and_its_file_show_the_same_figures(route: Route, developer: Api) -> None:
    meter(0)
    reading(route, 1, k0=ClientCounts(1234, 0, 0, 60, 25))
    meter(3)
    browser = client_of(person("eve", speech="developer"))

    shown = browser.get(f"/usage/?{SPAN}&measure=tokens").content.decode()
    file = browser.get(f"/usage/usage.csv?{SPAN}").content.decode().splitlines()

    assert "1,234" in shown
    assert file[0].startswith("day,team,service,version,key,requests")
    assert file[1].startswith("2026-11-20,speech,chat,chat:v1,,1234")
    assert browser.get("/usage/?since=2026-11-02&until=2026-11-01").status_code == 422
    made = browser.post(
        "/usage/budgets/+new/",
        {"name": "b", "team": team("speech").pk, "measure": "requests", "amount": "5", "warn_percent": "80"},
    )
    assert made.status_code in (200, 204, 302)
    assert Budget.objects.get().amount == 5
    assert browser.get("/usage/budgets/?sort=measured").status_code == 200
    assert UsageDay.objects.count() == 1
