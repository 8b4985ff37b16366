"""Graphs on Ray in a Kubernetes cluster, by REST: submitted by the active plan, shown, aborted."""

import json
from types import SimpleNamespace

import pytest
from django.utils import translation

from clusters.models import Cluster
from common.models import AuditRecord
from graphs import services
from graphs.backends.ray_objects import QUEUE_LABEL
from graphs.models import Graph
from serving.graphs.ray.sizes import PLAN_VARIABLE
from tests.cast import SYSTEM, api, client_of, person, team
from tests.graphs.test_kuberay import ORDER, World
from tests.graphs.world import graph_of, planned

pytestmark = pytest.mark.django_db
BODY = {
    "cluster": "prod",
    "name": ORDER.name,
    "image": "registry.example/translate:1",
    "file": "/app/translate.py",
    "pods": {"cores": 4, "memory_gib": 16},
    "source": "/data/pictures",
    "out": "/data/results",
    "queue": "team-a",
    "volumes": {"/data": "pictures"},
}


@pytest.fixture
def graph() -> Graph:
    return graph_of(team("speech"))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The cluster `prod`, with KubeRay and Kueue."""
    Cluster.objects.create(name="prod", kind="kubernetes", settings={"namespace": "default"})
    made = World()
    monkeypatch.setattr("graphs.ray_runs.backend_of", lambda _: SimpleNamespace(client=made.client))
    made.queue("team-a")
    return made


def test_a_graph_runs_by_its_active_plan_until_it_is_aborted(graph: Graph, world: World) -> None:
    rest = api(person("omar", speech="operator"))
    address = f"graphs/{graph.pk}/ray/"
    assert rest.post(f"{address}submit/", BODY).status_code == 409, "no plan is active"
    plan = planned(graph)
    services.start_plan(plan, actor=SYSTEM)

    made = rest.post(f"{address}submit/", BODY)
    assert made.json()["state"] == "queued", made.json()
    job = world.job()
    assert job["metadata"]["labels"][QUEUE_LABEL] == "team-a"
    sent = json.loads(json.loads(job["spec"]["runtimeEnvYAML"])["env_vars"][PLAN_VARIABLE])
    assert sent["tasks"] == plan.runtime["tasks"]
    message = "insufficient unused quota for cpu in flavor default, 4 more needed"
    world.wait_in_queue(message)
    (shown,) = rest.get(f"{address}?cluster=prod").json()["runs"]
    assert (shown["name"], shown["is_job"], shown["state"]) == (ORDER.name, True, "queued")
    assert message in shown["reason"]

    ended = rest.post(f"{address}abort/", {"cluster": "prod", "name": ORDER.name, "reason": "Wrong ones."})
    assert ended.json()["state"] == "gone"
    assert rest.get(f"{address}?cluster=prod").json() == {"runs": []}
    assert rest.post(f"{address}abort/", {"cluster": "prod", "name": ORDER.name}).status_code == 400
    recorded = AuditRecord.objects.values_list("action", flat=True)
    assert {"graph.submit", "graph.abort"} <= {*recorded}


def test_an_operator_submits_and_aborts_a_run_on_the_graphs_page(graph: Graph, world: World) -> None:
    services.start_plan(planned(graph), actor=SYSTEM)
    browser, address = client_of(person("omar", speech="operator")), f"/graphs/{graph.pk}/ray/"
    assert "Nothing of this graph runs on Ray" in browser.get(address).content.decode()
    form = {key: BODY[key] for key in ("name", "image", "file", "source", "out", "queue")}
    form |= {"cores": 4, "memory_gib": 16, "gpus": 0}
    refused = browser.post(address, {**form, "volumes": "nonsense"})
    assert (refused.status_code, b"like pictures:/data" in refused.content) == (422, True)
    browser.post(f"{address}?cluster=prod", {**form, "volumes": "pictures:/data"})
    assert world.job()["metadata"]["labels"][QUEUE_LABEL] == "team-a"
    with translation.override("zh-hans"):
        shown = browser.get(address, headers={"accept-language": "zh-hans"}).content.decode()
    assert ORDER.name in shown
    assert "队列" in shown

    reader = client_of(person("vera", speech="viewer"))
    assert "+abort/" not in reader.get(address).content.decode()
    reader.post(f"{address}prod/{ORDER.name}/+abort/", {})
    assert world.job(), "a viewer aborts nothing"
    browser.post(f"{address}prod/{ORDER.name}/+abort/", {"reason": "Wrong ones."})
    assert "Nothing of this graph runs on Ray" in browser.get(address).content.decode()


def test_only_operators_submit_and_only_to_clusters_of_their_team(graph: Graph, world: World) -> None:
    services.start_plan(planned(graph), actor=SYSTEM)
    address = f"graphs/{graph.pk}/ray/submit/"
    assert api(person("dina", speech="developer")).post(address, BODY).status_code == 403
    rest = api(person("omar", speech="operator"))
    Cluster.objects.create(name="theirs", kind="kubernetes", team=team("vision"))
    assert rest.post(address, {**BODY, "cluster": "theirs"}).status_code == 404
    assert rest.post(address, {**BODY, "cluster": "nowhere"}).status_code == 404
    assert rest.post(address, {**BODY, "out": ""}).status_code == 400


def test_a_cluster_without_kuberay_says_what_it_lacks(
    graph: Graph, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start_plan(planned(graph), actor=SYSTEM)
    bare = World(kinds=())
    monkeypatch.setattr("graphs.ray_runs.backend_of", lambda _: SimpleNamespace(client=bare.client))
    answer = api(person("omar", speech="operator")).post(f"graphs/{graph.pk}/ray/submit/", BODY)
    assert answer.status_code == 400
    assert "KubeRay is not installed" in answer.json()["detail"]
