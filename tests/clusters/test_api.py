"""Clusters, machines, deployments and logs over REST."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.models import Cluster, Worker
from tests.cast import Api, api, person, team
from tests.clusters.world import Scene, gpu_of, node_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def ada() -> Api:
    return api(person("ada", vision="viewer"))


def test_a_viewer_sees_shared_clusters_and_those_of_their_team(scene, ada) -> None:
    Cluster.objects.create(name="ours", kind="embedded", team=scene.team)
    Cluster.objects.create(name="theirs", kind="embedded", team=team("speech"))
    names = [row["name"] for row in ada.get("clusters/").json()["results"]]
    assert names == ["local", "ours"]
    assert ada.get("clusters/theirs/").status_code == 404
    assert ada.get("clusters/theirs/busy/").status_code == 404
    assert ada.get("clusters/theirs/nodes/").status_code == 404


def test_machines_come_with_their_gpus_in_a_constant_number_of_queries(scene, ada) -> None:
    def add(number: int) -> None:
        node = node_of(scene.cluster, f"box-{number}")
        gpu_of(node)

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as counted:
            assert ada.get("clusters/local/nodes/").status_code == 200
        return len(counted)

    add(1)
    queries()  # The first one marks the token as used.
    few = queries()
    for number in range(2, 20):
        add(number)
    assert queries() == few
    assert ada.get("clusters/local/nodes/").json()["results"][0]["gpus"][0]["name"] == "H100"


def test_deployments_come_with_their_workers_in_a_constant_number_of_queries(scene, ada) -> None:
    def add(number: int) -> None:
        row = scene.deployment(f"chat-v{number}")
        Worker.objects.create(
            deployment=row,
            uid=f"{row.name}-0",
            name=f"{row.name}-0",
            state="ready",
            state_since=timezone.now(),
        )

    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            assert ada.get("deployments/").status_code == 200
        return len(counted)

    add(1)
    queries()  # The first one marks the token as used.
    few = queries()
    for number in range(2, 20):
        add(number)
    assert queries() == few
    found = ada.get("deployments/?service=chat&sort=name&limit=1").json()["results"]
    assert found[0]["name"] == "chat-v1"
    assert found[0]["workers"][0]["name"] == "chat-v1-0"


def test_deployments_of_other_teams_are_not_there(scene) -> None:
    scene.deployment()
    bob = api(person("bob", speech="admin"))
    assert bob.get("deployments/").json()["results"] == []
    assert bob.get("deployments/chat-v1/").status_code == 404
    assert bob.get("workers/chat-v1-0/log/").status_code == 404


def test_without_redis_busy_rates_are_not_known_and_nothing_fails(scene, ada, settings) -> None:
    from common.live.redis import breaker

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    breaker.reset()
    shown = ada.get("clusters/local/busy/").json()
    assert (shown["live"], shown["history"], shown["now"]["busy"]) == (False, [], None)
    breaker.reset()


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("since=2026-11-20T08:30:00Z", 200),
        ("since=2026-11-20T08:30:00+01:00", 200),
        ("since=yesterday", 400),
        ("since=2026-13-45T08:30:00Z", 400),
        ("sinse=1", 400),
    ],
)
def test_the_history_starts_when_asked(scene, ada, query, status) -> None:
    answer = ada.get(f"clusters/local/busy/?{query}")
    assert answer.status_code == status
    if status == 400:
        assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("lines", ["0", "-1", "x", "99999", "1" * 50])
def test_a_log_has_a_number_of_lines(scene, ada, lines) -> None:
    assert ada.get(f"workers/chat-v1-0/log/?lines={lines}").status_code == 400


def test_a_single_deployment_has_an_etag(scene, ada) -> None:
    scene.deployment()
    first = ada.get("deployments/chat-v1/")
    assert ada.get("deployments/chat-v1/", If_None_Match=first["ETag"]).status_code == 304
