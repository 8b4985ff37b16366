"""One page of charts per thing, over the time that its address says, with marks of what happened."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from charts.marks import scaling_marks
from charts.time_range import times_of
from clusters.history import MinuteFigures, packed_minute
from clusters.models import FleetMinute, Worker
from tests.cast import api, person, team
from tests.clusters.world import gpu_of, node_of
from tests.releases.world import Scene

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "length", "step"),
    [
        ({}, timedelta(hours=1), timedelta(minutes=1)),
        ({"range": "15m"}, timedelta(minutes=15), timedelta(seconds=5)),
        ({"range": "30d"}, timedelta(days=30), timedelta(hours=6)),
        ({"from": "2026-11-20T12:00Z", "to": "2026-11-21T12:00Z"}, timedelta(days=1), timedelta(minutes=15)),
        ({"from": "2025-01-01T00:00Z"}, timedelta(days=30), timedelta(hours=6)),
    ],
)
def test_an_address_names_a_stretch_of_time(
    query: dict[str, str], length: timedelta, step: timedelta
) -> None:
    times = times_of(query, now=NOW)
    assert (times.until - times.since, times.step, times.problem) == (length, step, "")


@pytest.mark.parametrize(
    "query",
    [{"range": "2y"}, {"from": "yesterday"}, {"from": "2026-11-27T13:00Z", "to": "2026-11-27T14:00Z"}],
)
def test_an_address_that_names_none_says_so_and_shows_an_hour(query: dict[str, str]) -> None:
    times = times_of(query, now=NOW)
    assert times.problem
    assert times.until - times.since == timedelta(hours=1)


def test_a_change_of_the_number_of_workers_is_marked() -> None:
    numbers = [2.0, 2.0, None, 3.0, 3.0, 1.0]
    marks = scaling_marks([(NOW + timedelta(minutes=at), number) for at, number in enumerate(numbers)])
    assert [(one.name, one.at.minute) for one in marks] == [("Workers: 2 to 3", 3), ("Workers: 3 to 1", 5)]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, db: None) -> Scene:
    return Scene(monkeypatch)


@pytest.mark.any_database
def test_everything_that_was_kept_has_a_page_for_those_who_may_see_it(scene: Scene, client: Client) -> None:
    node = node_of(scene.service.cluster, "box-1")
    card = gpu_of(node)
    worker = Worker.objects.filter(deployment__name=scene.service.stable_deployment).first()
    assert worker
    Worker.objects.filter(pk=worker.pk).update(node=node)
    busy = MinuteFigures(busy=0.73, memory=0.5, mark=0, in_flight=3, queue=1, slots=4, workers=2).row
    subjects = [
        f"worker:{worker.name}",
        f"node:{node.pk}",
        f"gpu:{node.pk}:{card.uuid}",
        f"cluster:{scene.service.cluster_id}",
        f"deployment:{scene.service.stable_deployment}",
    ]
    minute = int(timezone.now().timestamp() // 60) - 5
    FleetMinute.objects.create(minute=minute, packed=packed_minute(dict.fromkeys(subjects, busy)))
    pages = {
        "worker": worker.name,
        "machine": node.pk,
        "gpu": card.pk,
        "cluster": scene.service.cluster.name,
        "version": scene.service.stable_deployment,
        "service": scene.name,
    }
    eve = person("eve", **{scene.team.name: "viewer"})
    client.force_login(eve)
    for kind, name in pages.items():
        content = client.get(f"/charts/{kind}/{name}/").content.decode()
        assert "73.0%" in content, kind
        assert "0.73" in content, kind
        figures = api(eve).get(f"charts/{kind}/{name}/?range=1h").json()
        (charted,) = [one for one in figures["charts"] if one["name"] == "busy"]
        assert 0.73 in charted["lines"][0]["values"], kind
        assert len(charted["lines"][0]["values"]) == len(charted["moments"]), kind
    assert "Release #1 of" in client.get(f"/charts/service/{scene.name}/?range=24h").content.decode()

    mallory = person("mallory", **{team("others").name: "admin"})
    client.force_login(mallory)
    for kind in ("worker", "version", "service"):
        assert client.get(f"/charts/{kind}/{pages[kind]}/").status_code == 404
        assert api(mallory).get(f"charts/{kind}/{pages[kind]}/").status_code == 404
    assert client.get("/charts/nothing/x/").status_code == 404
    refused = api(eve).get(f"charts/service/{scene.name}/?range=2y")
    assert refused.status_code == 400
    assert "range" in refused.json()["errors"]
