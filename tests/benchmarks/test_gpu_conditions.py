"""Rules about the GPUs of a run: its own, not slowed down, with steady clocks."""

from typing import Any

import pytest
from django.utils import timezone

from benchmarks import figures
from benchmarks.gpu_conditions import clock_spread, gpu_conditions
from benchmarks.load.records import WindowRecord
from benchmarks.load.scenario import LoadScenario
from benchmarks.models import BenchmarkRun
from benchmarks.validity import violations
from clusters.models import Cluster, Worker
from clusters.services.deployments import ensure_deployment
from clusters.states import GpuSharing
from gpu_health.models import Finding
from tests.benchmarks.conftest import BenchmarkScene
from tests.cast import SYSTEM
from tests.clusters.world import gpu_of, node_of

STEADY = {"series": {"gpu_clock 0": [1410.0] * 30, "gpu_use 0": [0.9] * 30}}


@pytest.fixture
def run(scene: BenchmarkScene) -> BenchmarkRun:
    """A run that measures on the machine `box` with one GPU."""
    row = scene.begin()
    gpu_of(node_of(scene.cluster))
    return BenchmarkRun.objects.create(
        benchmark=row, cell=row.cells.all()[0], repeat=1, position=1, deployment="bench-1",
        environment={"gpus": 1, "machines": ["box"]},
    )  # fmt: skip


def broken(run: BenchmarkRun, system: dict[str, Any] = STEADY) -> set[str]:
    summary = figures.summarise(WindowRecord(0, 1.0, 10.0, 0.0), LoadScenario()).as_json()
    told = figures.Summary.from_json({**summary, **gpu_conditions(run, system)})
    return {one.rule for one in violations(told, LoadScenario())} & {"shared", "throttled", "clocks"}


def test_a_gpu_of_its_own_with_steady_clocks_breaks_nothing(run: BenchmarkRun) -> None:
    assert broken(run) == set()


@pytest.mark.parametrize("kind", ["sharing", "worker"])
def test_a_shared_gpu_is_no_measurement(run: BenchmarkRun, kind: str) -> None:
    node = node_of(Cluster.objects.get(name="local"), "other")
    gpu = gpu_of(node, sharing=GpuSharing.TIME_SLICING if kind == "sharing" else GpuSharing.NONE)
    assert broken(run) == set(), "another machine's are no matter"
    machine = run.benchmark.cluster.nodes.get(name="box")
    if kind == "sharing":
        type(gpu).objects.filter(pk=gpu.pk).update(node=machine)
    else:
        other = ensure_deployment(
            actor=SYSTEM, name="chat-v1", op_key="test:1", cluster=run.benchmark.cluster,
            team=run.benchmark.team, service="chat", version=run.cell.version, replicas=1, slots=4,
            engine="echo",
        )  # fmt: skip
        Worker.objects.create(
            deployment=other, uid="w", name="w", node=machine, state="ready", state_since=timezone.now()
        )
    assert broken(run) == {"shared"}


def test_findings_of_slowed_clocks_count_from_the_beginning_of_the_measurement(run: BenchmarkRun) -> None:
    at = {"first_at": run.state_since, "last_at": run.state_since - timezone.timedelta(minutes=1)}
    found = Finding.objects.create(
        node=run.benchmark.cluster.nodes.get(name="box"), fault="clocks.thermal_slowdown", severity="warning",
        outcome="record", drain="none", verification="none", **at,
    )  # fmt: skip
    assert broken(run) == set()
    Finding.objects.filter(pk=found.pk).update(last_at=timezone.now())
    assert broken(run) == {"throttled"}


def test_clocks_that_fall_under_load_are_told_from_those_of_a_gpu_at_rest(run: BenchmarkRun) -> None:
    rest = {"gpu_clock 0": [210.0] * 10 + [1410.0] * 20, "gpu_use 0": [0.0] * 10 + [0.9] * 20}
    assert broken(run, {"series": rest}) == set()
    fell = {"gpu_clock 0": [1410.0] * 20 + [1200.0] * 10, "gpu_use 0": [0.9] * 30}
    assert broken(run, {"series": fell}) == {"clocks"}
    assert clock_spread({}) is None
