"""The pages of the fleet, as a signed-in person gets them."""

import time

import orjson
import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from clusters.models import Cluster, Deployment, Node, Worker
from common.live import shared
from tests import cast
from tests.clusters.world import Scene, gpu_of, node_of

PART = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def browser(scene) -> Client:
    client = Client()
    client.force_login(cast.person("ada", vision="viewer"))
    return client


def workers_of(scene: Scene, name: str, count: int, **fields) -> Deployment:
    row = scene.deployment(name, replicas=count, state="ready", next_at=None)
    for ordinal in range(count):
        node = node_of(scene.cluster, f"{name}-box-{ordinal}")
        gpu_of(node)
        given = {"state": "ready", "state_since": timezone.now(), "pid": 7} | fields
        one = f"{name}-{ordinal}"
        Worker.objects.create(deployment=row, uid=one, name=one, node=node, **given)
    return row


def beat(worker: str, **fields) -> None:
    record = {
        "worker": worker, "started_at": 1.0,
        "pid": 7, "state": "ready", "reason": "", "busy": 0.25, "in_flight": 1, "slots": 4, "queue_depth": 0,
        "counters": {"requests": 9}, "full_since": None, "ttft": {"p50_ms": 10, "p95_ms": 42, "count": 3},
    } | fields  # fmt: skip
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        entry = orjson.dumps({"at": time.time(), "record": record})
        client.hset(shared._hash("heartbeats"), worker, entry)


def text_of(answer) -> str:
    assert answer.status_code == 200
    return answer.content.decode()


PAGES = (
    "/fleet/",
    "/fleet/workers/",
    "/fleet/deployments/",
    "/fleet/workers/chat-0/",
    "/fleet/deployments/chat/",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_without_redis(scene, browser, path):
    workers_of(scene, "chat", 1)
    text_of(browser.get(path))


def test_without_redis_the_fleet_says_so_plainly_and_calls_nobody_lost(scene, browser):
    workers_of(scene, "chat", 2)
    page = text_of(browser.get("/fleet/"))
    assert "Redis does not answer" in page
    assert "Unhealthy" not in page
    assert "chat-box-0" in page


@pytest.mark.stack
def test_what_workers_report_is_shown_and_bound_to_the_live_topic(scene, browser, valkey):
    workers_of(scene, "chat", 1)
    beat("chat-0", busy=0.5)
    page = text_of(browser.get("/fleet/workers/"))
    assert "Redis does not answer" not in page
    assert 'data-live-topic="fleet"' in page
    assert 'data-live="worker.chat-0.busy"' in page
    assert "50%" in page
    assert "42\u00a0ms" in page


@pytest.mark.stack
def test_lost_and_stuck_workers_stand_on_top(scene, browser, valkey):
    workers_of(scene, "chat", 3, state_since=timezone.now() - timezone.timedelta(minutes=2))
    beat("chat-0")
    beat("chat-1", busy=1.0, full_since=time.time() - 90, unfinished_since=time.time() - 90)
    page = text_of(browser.get("/fleet/"))
    assert "No heartbeat, although its process runs." in page
    assert "All of its 4 slots are busy, and no request has ended for " in page
    assert page.index("Unhealthy") < page.index("heat-map")
    listed = text_of(browser.get("/fleet/workers/?state=trouble", headers={**PART, "HX-Target": "listing"}))
    assert "chat-1" in listed
    assert "chat-2" in listed
    assert "chat-0" not in listed


def test_machines_are_narrowed_to_a_cluster_from_its_page(scene, browser):
    workers_of(scene, "chat", 1)
    there = Cluster.objects.create(name="there", kind="kubernetes")
    node_of(there, "there-box")
    assert 'href="/fleet/?cluster=there"' in text_of(browser.get("/fleet/clusters/there/"))
    listed = text_of(browser.get("/fleet/?cluster=there", headers={**PART, "HX-Target": "listing"}))
    assert "there-box" in listed
    assert "chat-box-0" not in listed
    refused = text_of(browser.get("/fleet/?cluster=nowhere", headers={**PART, "HX-Target": "listing"}))
    assert "Cluster: There is no such cluster, or you may not see it." in refused


def test_a_filter_that_makes_no_sense_is_told_and_left_out(scene, browser):
    workers_of(scene, "chat", 1)
    listed = text_of(browser.get("/fleet/workers/?node=x&state=y", headers={**PART, "HX-Target": "listing"}))
    assert "Machine: There is no such machine, or you may not see it." in listed
    assert "State: There is no such state." in listed
    assert "chat-0" in listed


@pytest.mark.parametrize(
    ("narrowed", "shown", "left_out"),
    [
        ("/fleet/?q=box-1", "chat-box-1", "chat-box-0"),
        ("/fleet/?cordoned=true", "chat-box-2", "chat-box-1"),
        ("/fleet/deployments/?state=failing", "parrot", "/fleet/deployments/chat/"),
        ("/fleet/deployments/?q=parrot", "parrot", "/fleet/deployments/chat/"),
    ],
)
def test_pages_are_narrowed_by_the_filters_of_rest(scene, browser, narrowed, shown, left_out):
    workers_of(scene, "chat", 3)
    Node.objects.filter(name="chat-box-2").update(is_cordoned=True)
    Deployment.objects.filter(pk=scene.deployment("parrot").pk).update(state="failing")
    listed = text_of(browser.get(narrowed, headers={**PART, "HX-Target": "listing"}))
    assert shown in listed
    assert left_out not in listed
    assert "<html" not in listed
    place = narrowed.partition("?")[0]
    nothing = text_of(browser.get(f"{place}?q=nosuchthing", headers={**PART, "HX-Target": "listing"}))
    assert "matches" in nothing
    assert "left out" not in nothing
    assert "State: " in text_of(browser.get(f"{place}?state=y", headers={**PART, "HX-Target": "listing"}))


def test_a_click_on_a_machine_shows_its_workers_only(scene, browser):
    workers_of(scene, "chat", 3)
    node = Node.objects.get(name="chat-box-1")
    assert f'href="/fleet/nodes/{node.pk}/"' in text_of(browser.get("/fleet/"))
    machine = text_of(browser.get(f"/fleet/nodes/{node.pk}/"))
    assert "/fleet/workers/chat-1/" in machine
    assert "/fleet/workers/chat-0/" not in machine
    listed = text_of(browser.get(f"/fleet/workers/?node={node.pk}", headers={**PART, "HX-Target": "listing"}))
    assert "chat-1" in listed
    assert "chat-0" not in listed
    assert "<html" not in listed


def test_a_failing_deployment_says_why_with_its_last_lines(scene, browser):
    row = workers_of(scene, "chat", 1, state="failed", reason="exit status 1")
    Deployment.objects.filter(pk=row.pk).update(
        state="failing", reason="chat-0 exited 3 times", log_tail="torch.OutOfMemoryError: no room"
    )
    assert "chat-0 exited 3 times" in text_of(browser.get("/fleet/"))
    page = text_of(browser.get("/fleet/deployments/chat/"))
    assert "chat-0 exited 3 times" in page
    assert "torch.OutOfMemoryError" in page


def test_a_worker_whose_log_cannot_be_read_is_shown_all_the_same(scene, browser):
    workers_of(scene, "chat", 1)
    page = text_of(browser.get("/fleet/workers/chat-0/"))
    assert "has left no log" in page
    Cluster.objects.filter(pk=scene.cluster.pk).update(kind="kubernetes", revision=2)
    assert "cannot run clusters of the kind kubernetes" in text_of(browser.get("/fleet/workers/chat-0/"))


def test_another_team_sees_neither_workers_nor_deployments(scene):
    workers_of(scene, "chat", 1)
    client = Client()
    client.force_login(cast.person("eve", other="admin"))
    assert "chat-0" not in text_of(client.get("/fleet/workers/"))
    assert "/fleet/deployments/chat/" not in text_of(client.get("/fleet/deployments/"))
    assert client.get("/fleet/workers/chat-0/").status_code == 404
    assert client.get("/fleet/deployments/chat/").status_code == 404


@pytest.mark.parametrize("path", ["/fleet/", "/fleet/workers/", "/fleet/deployments/"])
def test_a_larger_fleet_asks_no_more_questions(scene, browser, path, django_assert_max_num_queries):
    workers_of(scene, "chat", 1)
    with django_assert_max_num_queries(15):
        text_of(browser.get(path))
    workers_of(scene, "more", 30)
    with django_assert_max_num_queries(15):
        text_of(browser.get(path))


def test_tables_sort_and_page_and_absurd_questions_are_answered(scene, browser):
    workers_of(scene, "chat", 60)
    first = text_of(browser.get("/fleet/workers/?sort=name", headers={**PART, "HX-Target": "listing"}))
    assert "1–50 of 60 workers" in first
    second = text_of(
        browser.get("/fleet/workers/?page=2&sort=-busy", headers={**PART, "HX-Target": "listing"})
    )
    assert "51–60 of 60 workers" in second
    text_of(browser.get("/fleet/workers/?page=-1&sort=nothing&node=x&state=y&q=z"))
    text_of(browser.get("/fleet/?page=99999999&sort=gpu"))


def test_a_workers_log_is_searched_paused_and_downloaded(scene, browser, monkeypatch):
    workers_of(scene, "chat", 1)
    lines = ["loaded", "ERROR no room", *["served"] * 300]
    monkeypatch.setattr("clusters.services.logs.read_log", lambda *args: "\n".join(lines[-args[-1] :]))
    page = "/fleet/workers/chat-0/"

    assert "ERROR no room" not in text_of(browser.get(page))
    found = text_of(browser.get(f"{page}?search=error&paused", headers={**PART, "HX-Target": "log"}))
    assert "ERROR no room" in found
    assert "loaded" not in found
    assert "every 2s" not in found
    assert "every 2s" in text_of(browser.get(page, headers={**PART, "HX-Target": "log"}))
    file = browser.get(f"{page}log/")
    assert file["Content-Disposition"] == 'attachment; filename="chat-0.log"'
    assert text_of(file).splitlines() == lines
    assert browser.get("/fleet/workers/none/log/").status_code == 404
