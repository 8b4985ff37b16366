"""Graphs from their push to an active plan, by services, REST and pages."""

import time
from dataclasses import replace

import pytest
from django.utils import timezone

from accounts.actors import of_user
from clusters.deployment_specs import spec_of
from clusters.models import Cluster
from clusters.services.files_tokens import issue_files_token
from common.jobs.runners.subprocess import local_runner
from common.reconcile import Kernel
from controlplane.home.inbox import inbox
from graphs import services
from graphs.differences import differences
from graphs.errors import GraphPlanNotReady, GraphQuotaExceeded, InvalidGraph
from graphs.manifest import find_graphs
from graphs.models import Graph, TaskGraphPlan, TaskProfile
from graphs.orders import description_of
from graphs.planning.requests import task_edges
from graphs.reconcilers import GraphPlanReconciler
from graphs.selectors import plans_to_start
from model_store.references import laid_out
from models_registry.errors import UnknownModel, UnknownVersion
from models_registry.files import materialise
from models_registry.models import Version
from models_registry.references import uses
from serving.graphs.description import ValueSource
from serving.graphs.plan import GraphPlan
from tests.cast import SYSTEM, Api, api, client_of, person, team
from tests.clusters.model_files import deployed, stored_version
from tests.clusters.world import version_of
from tests.graphs.world import MACHINE, REPORT, description, figures, graph_of, planned

pytestmark = pytest.mark.django_db


def test_a_pushed_graph_is_planned_started_and_shown() -> None:
    dina = person("dina", speech="developer")
    rest, browser = api(dina), client_of(dina)
    version_of(team("speech"), "story:v1")
    body = {"version": "story:v1", "graph": description().document()}
    made = rest.post("graphs/", {"name": "translate", "team": "speech", **body})
    assert made.status_code == 201, made.json()
    pk = made.json()["id"]
    assert rest.post(f"graphs/{pk}/plan/", {}).json()["errors"]["tasks"]
    assert rest.post(f"graphs/{pk}/profile/", REPORT).status_code == 201
    plan = planned(Graph.objects.get(pk=pk))
    assert plan.state == "proposed"
    assert plan.result["plan"]["rate"] == pytest.approx(0.95 * 4 / (0.01 + 0.26 + 0.14 + 0.02), rel=0.05)

    page = browser.get(f"/graphs/{pk}/plans/{plan.pk}/").content.decode()
    assert all(text in page for text in ("Ocr", "One more core", "Cores of box are busy 95%", "+start/"))
    assert [one.url for one in inbox(of_user(dina))] == [f"/graphs/{pk}/plans/{plan.pk}/"]
    browser.post(f"/graphs/{pk}/plans/{plan.pk}/+start/", {"reason": "Asked for."})
    shown = rest.get(f"graphs/{pk}/").json()
    assert shown["plan"]["id"] == plan.pk
    assert shown["plan"]["state"] == "active"
    runtime = GraphPlan.parse(shown["plan"]["runtime"], description())
    assert runtime.tasks["Ocr"].max_size == 8
    assert runtime.processes == sum(one["replicas"] for one in plan.result["plan"]["tasks"])
    assert "busy" in browser.get(f"/graphs/{pk}/").content.decode()
    assert "Ocr" in browser.get(f"/graphs/{pk}/profile/").content.decode()
    assert [hit.url for hit in find_graphs(dina, "transl", 5)] == [f"/graphs/{pk}/"]
    assert inbox(of_user(dina)) == []


@pytest.fixture
def graph() -> Graph:
    return graph_of(team("speech"))


def test_the_last_plan_is_restored_and_a_paused_graph_keeps_its_own(graph: Graph) -> None:
    first, second = planned(graph), planned(graph, latency_seconds=5.0)
    services.start_plan(first, actor=SYSTEM)
    services.start_plan(second, actor=SYSTEM)
    assert services.roll_back_plan(graph, actor=SYSTEM).pk == first.pk
    states = dict(TaskGraphPlan.objects.values_list("pk", "state"))
    assert states == {first.pk: "active", second.pk: "replaced"}
    services.pause_graph(graph, actor=SYSTEM)
    with pytest.raises(GraphPlanNotReady):
        services.roll_back_plan(graph, actor=SYSTEM)
    services.resume_graph(graph, actor=SYSTEM)
    assert services.roll_back_plan(graph, actor=SYSTEM).pk == second.pk


def test_another_version_makes_profiles_stale_and_plans_unusable(graph: Graph) -> None:
    plan = planned(graph)
    assert not any(one.is_stale for one in TaskProfile.objects.select_related("graph"))
    row = {"model": graph.version.model, "name": "v2", "number": 2, "digest": "1" * 64}
    Version.objects.create(**row, state="ready", ready_at=timezone.now(), file_count=1)
    changed = description("translate", model="story:v1").document()
    assert plans_to_start(SYSTEM).exists()
    services.change_graph(graph, actor=SYSTEM, version="story:v2", graph=changed)
    assert not plans_to_start(SYSTEM).exists()
    stale = {one.task: one.is_stale for one in TaskProfile.objects.select_related("graph")}
    assert stale == {"Decode": True, "Ocr": False, "Inpaint": True, "Compose": True}
    plan.refresh_from_db()
    with pytest.raises(GraphPlanNotReady):
        services.start_plan(TaskGraphPlan.objects.select_related("graph__team").get(), actor=SYSTEM)


def test_files_of_a_task_s_model_come_with_the_code_and_stay(tmp_path, settings) -> None:
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    speech = team("speech")
    code = stored_version(speech, {"app.py": b"# the graph"})
    old, new = (stored_version(speech, {"net.bin": b"%d" % n}, label=f"ocr:v{n}") for n in (1, 2))
    body = {"actor": SYSTEM, "version": "story:v1"}
    graph = services.create_graph(
        **body, team=speech, name="translate", graph=description(model="ocr:v1").document()
    )
    cluster = Cluster.objects.create(name="gpu", kind="kubernetes", team=speech)
    row = deployed(cluster, code)
    row.engine = "app"
    row.save()
    digest, paths = spec_of(row).version.digest, [one.path for one in spec_of(row).version.files]
    assert paths == ["app.py", "task_models/ocr/v1/net.bin"]
    place = materialise(code)
    assert (place / "task_models/ocr/v1/net.bin").read_bytes() == b"1"
    machine = Api(issue_files_token(actor=SYSTEM, cluster=cluster).text)
    told = machine.get(f"model-files/{code.pk}/").json()
    assert (told["digest"], [one["path"] for one in told["files"]]) == (digest, paths)
    assert machine.get(f"model-files/{code.pk}/{told['files'][1]['sha256']}/").status_code == 200
    assert laid_out({place.name, code.digest, "0" * 64}) == {digest, code.digest}

    row2 = stored_version(speech, {"app.py": b"# another"}, label="story:v2")
    services.change_graph(
        graph, actor=SYSTEM, version=str(row2), graph=description(model="ocr:v2").document()
    )
    assert set(uses([old.pk])[old.pk]) == {"tasks of story:v1"}, "the code before can be released again"
    assert "tasks of story:v2" in uses([new.pk])[new.pk]
    assert spec_of(row).version.digest == digest

    for model in ("ocr:v9", "ocr", "other:v1"):
        with pytest.raises((InvalidGraph, UnknownVersion, UnknownModel)):
            services.change_graph(graph, **body, graph=description(model=model).document())
    foreign = stored_version(team("vision"), {"app.py": b"# theirs"}, label="theirs:v1")
    with pytest.raises(InvalidGraph):
        services.change_graph(
            graph, actor=SYSTEM, version=str(foreign), graph=description(model="ocr:v1").document()
        )


def test_a_plan_that_no_machine_can_hold_says_what_is_short(graph: Graph) -> None:
    small = {**MACHINE, "memory": 2**30}
    plan = planned(graph, machines=[small])
    assert plan.state == "impossible"
    (short,) = plan.result["shortages"]
    assert short["resource"] == "memory of machines"
    assert short["missing"] == pytest.approx(2**30)
    with pytest.raises(GraphPlanNotReady):
        services.start_plan(plan, actor=SYSTEM)
    page = client_of(person("dina", speech="developer")).get(f"/graphs/{graph.pk}/plans/{plan.pk}/")
    assert "memory of machines" in page.content.decode()


def test_plans_of_a_team_stay_within_its_quota(graph: Graph, settings) -> None:
    plan = planned(graph)
    settings.SLIPWAY_GRAPH_CORES = 2.0
    with pytest.raises(GraphQuotaExceeded):
        services.start_plan(plan, actor=SYSTEM)
    settings.SLIPWAY_GRAPH_CORES = 4.0
    settings.SLIPWAY_GRAPH_MEMORY_GIB = 0.5
    with pytest.raises(GraphQuotaExceeded):
        services.start_plan(plan, actor=SYSTEM)
    settings.SLIPWAY_GRAPH_MEMORY_GIB = 16.0
    assert services.start_plan(plan, actor=SYSTEM).state == "active"


def test_what_makes_no_sense_is_refused_by_field(graph: Graph) -> None:
    broken = description().document()
    broken["nodes"][0]["task"] = "Nobody"
    for wrong, field in ((broken, "graph"), ({"format": 1}, "graph")):
        with pytest.raises(InvalidGraph) as refused:
            services.change_graph(graph, actor=SYSTEM, version="story:v1", graph=wrong)
        assert field in refused.value.fields
    with pytest.raises(InvalidGraph) as refused:
        services.record_profile(graph, actor=SYSTEM, **{**REPORT, "tasks": [figures("Nobody", 1.0, 1)]})
    assert "tasks" in refused.value.fields
    services.record_profile(graph, actor=SYSTEM, **REPORT)
    with pytest.raises(InvalidGraph) as refused:
        services.order_plan(graph, actor=SYSTEM, objective="cost")
    assert "rate" in refused.value.fields


def test_tasks_wait_for_those_whose_values_they_take(graph: Graph) -> None:
    assert task_edges(description_of(graph)) == [
        ("Decode", "Ocr"),
        ("Decode", "Inpaint"),
        ("Ocr", "Inpaint"),
        ("Inpaint", "Compose"),
        ("Ocr", "Compose"),
    ]


@pytest.mark.process
def test_a_real_process_computes_a_plan(graph: Graph) -> None:
    services.record_profile(graph, actor=SYSTEM, **REPORT)
    plan = services.order_plan(graph, actor=SYSTEM, objective="cost", rate=2.0)
    kernel = Kernel()
    kernel.register(GraphPlanReconciler(local_runner()))
    deadline = time.monotonic() + 60
    while plan.state == "planning":
        assert time.monotonic() < deadline, plan.last_error
        kernel.sweep()
        time.sleep(0.1)
        plan.refresh_from_db()
    assert plan.state == "proposed", plan.reason
    assert plan.result["plan"]["rate"] == pytest.approx(2.0)


def test_any_two_pushes_show_what_came_what_went_and_what_is_done_otherwise() -> None:
    dina, graph = person("dina", speech="developer"), graph_of(team("speech"))
    browser, address = client_of(dina), f"/graphs/{graph.pk}/changes/"
    assert browser.get(address).status_code == 404, "nothing was pushed yet"
    before = description()
    decode, ocr, paint, compose = before.nodes
    after = replace(
        before,
        tasks=tuple(replace(one, max_size=16) if one.name == "Ocr" else one for one in before.tasks),
        nodes=(decode, ocr, replace(paint, inputs=ocr.inputs), replace(compose, name="render")),
        outputs=(replace(before.outputs[0], source=ValueSource(name="render")),),
    )
    found = {one.node: one for one in differences(before, after)}
    assert {name: one.kind for name, one in found.items()} == {
        "ocr": "changed", "inpaint": "changed", "render": "added", "compose": "removed"
    }  # fmt: skip
    assert found["ocr"].parts == (("max_size", "8", "16"),)
    for pushed in (before, after, before):
        services.change_graph(graph, actor=SYSTEM, version=str(graph.version), graph=pushed.document())
    assert f"{address}" in browser.get(f"/graphs/{graph.pk}/").content.decode()

    def marks(query: str = "") -> list[int]:
        shown = browser.get(f"{address}{query}").content.decode()
        return [shown.count(f'dag-{mark}"') for mark in ("added", "removed", "changed")]

    assert marks() == [1, 1, 4], "the last two, where nothing else is asked for"
    last, middle, first = graph.pushes.values_list("pk", flat=True)
    assert marks(f"?before={middle}&after={last}") == [1, 1, 4]
    assert marks(f"?before={first}&after={last}") == [0, 0, 0]
    assert browser.get(f"{address}?before={last + 99}").status_code == 422
