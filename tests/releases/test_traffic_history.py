"""Charts and REST show the hours before somebody looked, and go on from there without a gap."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from django.utils import timezone

from common.actor import Actor
from gateway import history
from gateway.history import TrafficInterval
from gateway.models import Route, TrafficReading
from gateway.traffic import CountsReading, rates
from releases.models import Release, Service
from releases.pages.release import ReleasePage
from releases.pages.service import ServicePage
from releases.pages.traffic_charts import SPANS, moments_of, span_over, traffic_charts
from releases.plans.builtin import builtin_plan
from releases.sampling import Sampler, TrafficSample
from releases.states import ReleaseState
from releases.traffic import SideTraffic
from tests.cast import Api, api, person, team
from tests.clusters.world import version_of
from tests.gateway.cast import cluster, gateway_of
from tests.releases.test_traffic import counts

T0 = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def stretch(minute: int, requests: int | None, *, minutes: int = 1) -> TrafficInterval:
    began_at, at = T0 + timedelta(minutes=minute), T0 + timedelta(minutes=minute + minutes)
    if requests is None:
        return TrafficInterval(began_at, at, None)
    passed = rates({"a": counts(0)}, {"a": counts(requests)}, (at - began_at).total_seconds())
    return TrafficInterval(began_at, at, passed)


def look(seconds: float, rate: float = 9.0) -> TrafficSample:
    return TrafficSample(T0.timestamp() + seconds, {"a": SideTraffic(rate=rate)})


def line(history: list[TrafficInterval], looks: list[TrafficSample]) -> list[float | None]:
    charts = dict(traffic_charts(moments_of(history, looks), {"stable": "a"}, span=SPANS[0]))
    return list(charts["rate"].series[0].values)


def test_kept_minutes_and_live_looks_are_one_line() -> None:
    assert line([stretch(0, 60), stretch(1, 120)], [look(150), look(151)]) == [1, 2, 9, 9]


def test_a_minute_that_a_page_looked_at_is_shown_as_finely_as_it_was_seen() -> None:
    looks = [look(60 + second) for second in range(0, 60, 2)]
    assert line([stretch(0, 60), stretch(1, 120), stretch(2, 180)], looks[1:]) == [1] + 29 * [9] + [3]


def test_a_page_that_looked_seldom_or_was_closed_for_a_while_draws_a_line_and_no_dots() -> None:
    looks = [look(at) for at in (62, 69, 77, 110, 118)]
    assert None not in line([stretch(0, 60), stretch(1, 120), stretch(2, 180)], looks)
    restarted = [stretch(0, 60), stretch(1, None), stretch(2, 60)]
    assert line(restarted, [look(60 + second) for second in range(2, 60, 2)]).count(None) == 0


def test_each_version_has_a_colour_and_a_dash_of_its_own() -> None:
    sides = {"candidate": "b", "stable": "a", "v1 (#1)": "c", "v0 (#0)": "d"}
    _, chart = traffic_charts(moments_of([], [look(0)]), sides, span=SPANS[0])[0]
    assert len({one.paint for one in chart.series}) == len({one.dash for one in chart.series}) == 4


def test_the_line_breaks_where_nobody_counted() -> None:
    assert line([stretch(0, 60), stretch(1, None, minutes=4), stretch(5, 60)], []) == [1, None, None, 1]
    assert line([stretch(0, 60), stretch(4, 60)], []) == [1, None, 1]
    assert line([], [look(0), look(1), look(200)]) == [9, 9, None, 9]
    assert line([stretch(0, 60)], [look(300)]) == [1, None, 9]


def test_a_long_time_is_shown_coarsely() -> None:
    assert span_over(timedelta(minutes=40)).step == timedelta(minutes=1)
    assert span_over(timedelta(hours=5)).step == timedelta(minutes=5)
    assert span_over(timedelta(days=3)).name == "7d"
    assert span_over(timedelta(days=90)).name == "30d"


def test_the_first_look_tells_figures_from_the_last_kept_reading() -> None:
    now = [1_000.0]
    sampler = Sampler(
        lambda _: CountsReading({"a": counts(300)}),
        kept=lambda _: (40.0, {"a": counts(100)}),
        clock=lambda: now[0],
    )
    first = sampler.look("chat").sides["a"]

    assert (first.requests, first.rate) == (200, 5.0)
    assert first.p95 is not None


@pytest.fixture
def service(db: None) -> Service:
    """A service with 90 minutes of 60 requests each, the first hour of them of the version before."""
    before, now = (version_of(team("speech"), f"story:v{number}") for number in (1, 2))
    service = Service.objects.create(
        team=now.model.team,
        name="chat",
        model=now.model,
        cluster=cluster(),
        engine="echo",
        stable_version=now,
        stable_deployment="chat-2",
        created_by="ada",
    )
    for number, version in enumerate((before, now), start=1):
        Release.objects.create(
            service=service,
            team=service.team,
            version=version,
            plan_name="direct",
            plan=builtin_plan("direct").model_dump(mode="json"),
            requester="ada",
            state=ReleaseState.PROMOTED,
            candidate_deployment=f"chat-{number}",
            ended_at=timezone.now(),
        )
    route = Route.objects.create(
        gateway=gateway_of(),
        service="chat",
        stable_target="chat-2",
        writer=1,
        writer_turn=1,
        changed_at=timezone.now(),
    )
    end = timezone.now() - timedelta(seconds=20)
    TrafficReading.objects.bulk_create(
        TrafficReading(route=route, minute=history.minute_of(at), at=at, counts=history.packed(reading))
        for minute in range(91)
        for at in [end - timedelta(minutes=90 - minute)]
        for reading in [{"chat-1": counts(60 * min(minute, 60)), "chat-2": counts(60 * max(minute - 60, 0))}]
    )
    return service


@pytest.fixture
def ada(db: None) -> Api:
    return api(person("ada", speech="developer"))


def test_rest_gives_the_minutes_of_each_version(service: Service, ada: Api) -> None:
    body = ada.get("services/chat/traffic/").json()
    assert (body["service"], body["step_seconds"]) == ("chat", 60)
    last = body["points"][-1]
    assert [(one["deployment"], one["version"], one["requests"]) for one in last["versions"]] == [
        ("chat-1", "story:v1", 0),
        ("chat-2", "story:v2", 60),
    ]
    since = (timezone.now() - timedelta(hours=2)).isoformat()
    longer = ada.get(f"services/chat/traffic/?since={quote(since)}&step_seconds=600").json()
    counted = sum(one["requests"] for point in longer["points"] for one in point["versions"])
    assert 90 * 60 - 600 <= counted <= 90 * 60


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("since=yesterday", "Datetime has wrong format"),
        ("step_seconds=1", "greater than or equal to 60"),
        ("since=2090-01-01T00:00:00Z", "before `until`"),
    ],
)
def test_rest_says_what_is_wrong_with_a_question(service: Service, ada: Api, query: str, words: str) -> None:
    answer = ada.get(f"services/chat/traffic/?{query}")
    assert answer.status_code == 400
    assert words in answer.json()["errors"][query.partition("=")[0]][0]


def test_traffic_is_for_those_who_may_see_the_service(service: Service) -> None:
    assert api(person("eve", another="admin")).get("services/chat/traffic/").status_code == 404


def test_a_service_page_opens_with_its_last_hours(service: Service, ada: Api) -> None:
    def lines(span: str) -> dict[str, int]:
        page = ServicePage(service, Actor.system("test"), span=span)
        chart = dict(page.charts)["rate"]
        return {one.name: sum(value is not None for value in one.values) for one in chart.series}

    hour = lines("1h")
    assert list(hour) == ["stable", f"v1 (#{_first(service)})"]
    assert hour["stable"] == pytest.approx(60, abs=2)
    assert lines("24h")["stable"] == pytest.approx(6, abs=2)


def test_a_release_page_shows_all_of_its_time_however_little_was_counted(service: Service) -> None:
    release = Release.objects.filter(service=service).order_by("pk")[0]
    release.ended_at = release.created_at + timedelta(seconds=90)
    chart = dict(ReleasePage(release, Actor.system("test")).charts)["rate"].as_data
    assert chart["until"] - chart["since"] == 90


def _first(service: Service) -> int:
    return Release.objects.filter(service=service).order_by("pk")[0].pk
