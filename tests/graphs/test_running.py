"""A graph at a real worker: its rates, its items, a plan that it takes over, a plan made of its times."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.utils import timezone

from clusters.models import Cluster, Deployment, Worker
from common.reconcile import Kernel
from graphs import services
from graphs.errors import InvalidGraph
from graphs.models import Graph
from graphs.orders import worker_plan
from graphs.planning.adaptation import (
    MeasuredFactors,
    corrected,
    gain_of,
    memory_factors,
    rate_of,
    time_factors,
    visit_factors,
)
from graphs.planning.documents import answer
from graphs.reconcilers import GraphReconciler
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from tests.cast import SYSTEM, api, client_of, person, team
from tests.clusters.world import version_of
from tests.crash.harness import Clock
from tests.graphs.world import GIB, MACHINE, REPORT, advance, description, figures, graph_of, planned
from tests.serving.graphs.apps import DIFFICULT
from tests.serving.runtime.rig import BackgroundCall, service

pytestmark = pytest.mark.django_db


@dataclass
class Running:
    """A graph whose only worker is real. `look`: the control plane looks at it once."""

    graph: Graph
    url: str
    look: Callable[[], dict[str, Any]]
    clock: Clock

    def counters(self) -> dict[str, Any]:
        return httpx2.get(f"{self.url}/counters", timeout=30).json()


@pytest.fixture
def running(tmp_path) -> Iterator[Running]:
    with _served(tmp_path, DIFFICULT) as found:
        yield found


@contextmanager
def _served(tmp_path: Path, text: str) -> Iterator[Running]:
    with service(tmp_path / "app", text) as worker:
        version = version_of(team("speech"), "difficult:v1")
        here = Cluster.objects.get_or_create(name="here", kind="fake")[0]
        row = Deployment.objects.create(
            name="difficult-1", cluster=here, team=team("speech"), service="difficult", version=version,
            version_label=str(version), engine="app", replicas=1, slots=8,
        )  # fmt: skip
        port = int(worker.url.rpartition(":")[2])
        Worker.objects.create(
            deployment=row, uid="u", name="difficult-1-0", address="127.0.0.1", port=port, state="ready",
            state_since=timezone.now(),
        )  # fmt: skip
        document = httpx2.get(f"{worker.url}/graph", timeout=30).json()
        graph = services.create_graph(
            actor=SYSTEM, team=team("speech"), name="difficult", version=str(version), graph=document
        )
        clock = Clock()
        kernel = Kernel(clock=clock)
        kernel.register(GraphReconciler())

        def look() -> dict[str, Any]:
            clock.pass_(timedelta(seconds=11))
            kernel.sweep()
            graph.refresh_from_db()
            found: dict[str, Any] = graph.look
            return found

        yield Running(graph, worker.url, look, clock)


def _profiled(graph: Graph, seconds: float) -> None:
    tasks = [
        figures("Risky", seconds, 1, 4), figures("picture", seconds, 1), figures("checked", seconds, 1),
        figures("slow", seconds, 1),
    ]  # fmt: skip
    services.record_profile(graph, actor=SYSTEM, digest=graph.digest, code="", machine=MACHINE, tasks=tasks)


def _started(graph: Graph) -> dict[str, Any]:
    plan = services.order_plan(graph, actor=SYSTEM, objective="throughput")
    advance(plan)
    services.start_plan(plan, actor=SYSTEM)
    runtime: dict[str, Any] = plan.runtime
    return runtime


@pytest.mark.process
@pytest.mark.timeout(120)
def test_people_see_what_runs_and_run_a_failed_item_again(running: Running) -> None:
    dina = person("dina", speech="developer")
    rest, browser, base = api(dina), client_of(dina), f"/graphs/{running.graph.pk}/"
    for number in (20, 21, 7):
        httpx2.post(f"{running.url}/run", content=str(number).encode(), timeout=30)
    look = running.look()
    assert (look["workers"][0]["is_current"], look["tasks"]["Risky"]["replicas"]) == (True, 1)
    assert look["rate"] > 0
    assert "queue 0" in browser.get(base).content.decode()

    (failed,) = rest.get(f"graphs/{running.graph.pk}/items/?state=failed").json()["items"]
    assert failed["reason"] == "Risky: ValueError: 7 is poison"
    again = rest.post(f"graphs/{running.graph.pk}/items/retry/", {"item": failed["id"]}).json()["item"]
    deadline = time.monotonic() + 30
    while len(rest.get(f"graphs/{running.graph.pk}/items/?state=failed").json()["items"]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shown = browser.get(f"{base}items/{again}/").content.decode()
    assert "7 is poison" in shown
    assert f"{base}items/{failed['id']}/" in shown
    done = rest.get(f"graphs/{running.graph.pk}/items/?state=done").json()["items"][0]
    assert b"gantt-bar" in browser.get(f"{base}items/{done['id']}/").content
    assert browser.get(f"{base}items/{done['id']}/output/?name=").content == b"211"
    assert b"gantt-bar" in browser.get(f"{base}timeline/").content
    stranger = client_of(person("vera", speech="viewer"))
    assert stranger.get(f"{base}items/{done['id']}/").status_code == 200
    assert stranger.get(f"{base}items/{done['id']}/output/?name=").status_code == 403
    assert rest.post(f"graphs/{running.graph.pk}/items/retry/", {"item": "nobody:1"}).status_code == 404


@pytest.mark.process
@pytest.mark.timeout(120)
def test_a_started_plan_reaches_the_worker_without_losing_an_item(running: Running, settings) -> None:
    settings.SLIPWAY_GRAPH_PENDING_ITEMS = 64
    _profiled(running.graph, 0.2)
    running.look()
    first = _started(running.graph)
    busy = [BackgroundCall(SimpleWorker(running.url), "/run", number) for number in range(20, 40)]
    _until(lambda: running.look()["workers"] and _has(running, first, waiting=64))
    assert [one.result() for one in busy] == [(200, number * 10 + 1) for number in range(20, 40)]

    _profiled(running.graph, 0.02)
    second = _started(running.graph)
    _until(lambda: running.look()["workers"] and _has(running, second, waiting=64))
    services.roll_back_plan(running.graph, actor=SYSTEM)
    _until(lambda: running.look()["workers"] and _has(running, first, waiting=64))
    assert running.counters()["failed"] == 0


@pytest.mark.process
@pytest.mark.timeout(120)
def test_times_of_the_worker_bring_another_plan_that_starts_by_itself(running: Running) -> None:
    services.change_adaptation(running.graph, actor=SYSTEM, adapt="automatic", dwell_seconds=0)
    tasks = [
        figures("Risky", 0.002, 1, 4), figures("picture", 0.2, 1), figures("checked", 0.001, 1),
        figures("slow", 0.001, 1),
    ]  # fmt: skip
    graph = running.graph
    services.record_profile(graph, actor=SYSTEM, digest=graph.digest, code="", machine=MACHINE, tasks=tasks)
    first = _started(graph)
    assert first["tasks"]["picture"]["replicas"] > first["tasks"]["slow"]["replicas"]
    _until(lambda: running.look()["workers"] and _has(running, first))
    asked = [BackgroundCall(SimpleWorker(running.url), "/run", number) for number in range(20, 60)]
    assert all(one.result()[0] == 200 for one in asked)
    for _ in range(6):
        running.look()
    plan = graph.plans.first()
    assert plan.kind == "adapted"
    assert plan.adaptation["factors"]["slow"] > 1.5
    advance(plan)
    assert (plan.state, plan.adaptation["is_worth"]) == ("proposed", True)
    running.look()
    plan.refresh_from_db()
    assert plan.state == "active"


# The machine that tests run on is never idle; the worker is told that it is.
QUICK = """
import os, time
from slipway import graph
os.getloadavg = lambda: (0.0, 0.0, 0.0)

@graph.task(batch=graph.Batch(max_size=2))
class Doubled:
    def run(self, numbers: list[int]) -> list[int]:
        time.sleep(0.02)
        return [2 * one for one in numbers]

@graph.task
def shown(number: int) -> str:
    time.sleep(0.02)
    return str(number)

with graph.Graph("quick") as g:
    g.output(shown(Doubled()(g.input("x", int))))
"""


@pytest.mark.process
@pytest.mark.timeout(180)
def test_a_worker_takes_the_profile_that_somebody_orders_once_it_is_idle(tmp_path: Path) -> None:
    dina = person("dina", speech="developer")
    with _served(tmp_path, QUICK) as running:
        graph, rest, browser = running.graph, api(dina), client_of(dina)
        running.look()
        ordered = rest.post(f"graphs/{graph.pk}/order-profile/", {}).json()
        assert ordered["profiling"]["state"] == "waiting"
        running.look()
        assert "no inputs are kept" in graph.profiling["reason"]
        assert b"A profile is under way." in browser.get(f"/graphs/{graph.pk}/").content

        for number in range(3):
            httpx2.post(f"{running.url}/run", content=str(number).encode(), timeout=30)
        _until(lambda: running.look() and not graph.profiling, seconds=120)
        found = {one.task: one.figures for one in graph.profiles.all()}
        assert {name: len(one["times"]) for name, one in found.items()} == {"Doubled": 2, "shown": 1}
        assert all(0.02 <= time["seconds"] < 0.2 for one in found.values() for time in one["times"])
        assert rest.post(f"graphs/{graph.pk}/plan/", {"objective": "throughput"}).status_code == 201
        assert httpx2.post(f"{running.url}/run", content=b"4", timeout=30).text == "8"


@dataclass
class SimpleWorker:
    url: str


def _has(running: Running, runtime: dict[str, Any], waiting: int = 0) -> bool:
    status = running.counters()
    entry = {**runtime["entry"], "waiting": waiting}
    return not status["is_switching"] and status["plan"] == {**runtime, "entry": entry}


def _until(holds: Callable[[], Any], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.3)


def test_a_profile_of_another_graph_or_file_is_refused() -> None:
    graph = graph_of(team("speech"))
    with pytest.raises(InvalidGraph) as refused:
        services.record_profile(graph, actor=SYSTEM, **{**REPORT, "digest": "sha256:other"})
    assert "digest" in refused.value.fields


def test_measured_times_lower_the_rate_of_a_plan_and_a_better_one_must_pay_for_its_start() -> None:
    plan = planned(graph_of(team("speech")))
    request, found = plan.request, plan.result["plan"]
    slow = {"Ocr": {8: (50, 2 * 0.4 * (0.4 + 0.6 * 8))}, "Decode": {1: (3, 9.0)}}
    now = time_factors(request, found, slow)
    assert now == {"Ocr": pytest.approx(2.0)}, "three calls are too few to believe"
    changed = corrected(request, found, MeasuredFactors(times=now))
    before = rate_of(changed, found)
    assert before < rate_of(request, found) == pytest.approx(found["most"], rel=0.05)
    after = answer(changed)["plan"]["rate"]
    assert after >= before
    dear = gain_of(1.0, 1.2, switch_seconds=900, horizon_seconds=3_600, share=0.1)
    cheap = gain_of(1.0, 1.2, switch_seconds=10, horizon_seconds=3_600, share=0.1)
    assert (dear.is_worth, cheap.is_worth) == (False, True)


def test_more_calls_per_item_and_more_memory_than_planned_change_the_next_plan() -> None:
    plan = planned(graph_of(team("speech")))
    request, found = plan.request, plan.result["plan"]
    calls = {"Decode": 200, "Ocr": 600, "Inpaint": 200, "Compose": 200}
    assert visit_factors(request, calls, 50) == {}, "fifty items are too few to believe"
    now = MeasuredFactors(
        times={},
        visits=visit_factors(request, calls, 200),
        memory=memory_factors(request, found, {"Ocr": 3 * GIB, "Inpaint": GIB // 4}),
    )
    assert (now.visits["Ocr"], now.memory) == (pytest.approx(3.0), {"Ocr": pytest.approx(6.0)})
    assert now.is_drifted(MeasuredFactors(times={}), share=0.1)
    assert not now.is_drifted(now, share=0.1)
    changed = corrected(request, found, now)
    assert rate_of(changed, found) < rate_of(request, found)
    loads = {one["resource"]: one["used"] for one in answer(changed)["plan"]["loads"]}
    assert 3 * GIB <= loads["memory"] <= 16 * GIB


def test_workers_of_a_machine_share_its_plan() -> None:
    graph = description()
    tasks = {one.name: TaskPlan(replicas=1) for one in graph.tasks} | {
        "Ocr": TaskPlan(replicas=5, device="cuda", gpus=(0, 0, 1, 1, 2))
    }
    whole = GraphPlan(tasks=tasks, entry=EntryLimits(items=17, bytes=1 << 30)).document()
    shares = [worker_plan(whole, graph, number=number, of=2, waiting=8) for number in range(2)]
    ocr = [one["tasks"]["Ocr"] for one in shares]
    assert [one["replicas"] for one in ocr] == [3, 2]
    assert sorted(ocr[0]["gpus"] + ocr[1]["gpus"]) == [0, 0, 1, 1, 2]
    assert [one["entry"] for one in shares] == [{"items": 9, "bytes": 1 << 29, "waiting": 8}] * 2
    assert all(one["tasks"]["Decode"]["replicas"] == 1 for one in shares), "each needs every task"
