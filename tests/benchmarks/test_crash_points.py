"""The control plane dies at any point of a benchmark: no window is measured twice, and nothing is left."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from accounts.actors import of_user
from benchmarks import figures
from benchmarks.load.records import WindowRecord
from benchmarks.load.scenario import LoadScenario
from benchmarks.models import Benchmark, BenchmarkFigure, BenchmarkLease, BenchmarkRun
from benchmarks.reconcilers.benchmarks import BenchmarkReconciler
from benchmarks.reconcilers.cleanup import CleanupReconciler
from benchmarks.reconcilers.runs import RunReconciler
from benchmarks.services import create_benchmark
from benchmarks.states import BenchmarkState, RunState
from clusters.models import Deployment
from clusters.states import GONE
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import JobSpec
from common.reconcile import Reconciler
from tests.benchmarks.test_load import answered
from tests.cast import person
from tests.clusters.world import Scene
from tests.crash.harness import Checkpoints, crashes, die, dies

pytestmark = pytest.mark.django_db
SCENARIO: dict[str, Any] = {"rates": [10], "requests": 20}


def measured(_spec: JobSpec) -> dict[str, Any]:
    window = WindowRecord(window=0, rate=10.0, seconds=2.0, began_at=0.0)
    window.requests = [answered(number, number / 10, number / 10) for number in range(20)]
    summary = figures.summarise(window, LoadScenario()).as_json()
    return {"engine": "builtin", "summaries": [summary], "heads": [window.head()]}


class CrashScene(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.runner = FakeRunner(measured)
        self.actor = of_user(person("ada", vision="developer"))
        self.begun = 0

    def reconcilers(self) -> list[Reconciler[Any]]:
        ours = [BenchmarkReconciler(), RunReconciler(self.runner), CleanupReconciler()]
        return [*ours, super().reconcilers()[0]]

    def begin(self) -> Benchmark:
        self.begun += 1
        space = {"engines": ["echo"]}
        return create_benchmark(
            actor=self.actor, team=self.team, name=f"crash-{self.begun}", cluster="local", scenario=SCENARIO,
            spec={"versions": ["story:v1"], "repeats": 1, "space": space},
        )  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path, settings: Any) -> CrashScene:
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    settings.SLIPWAY_JOBS_DIR = tmp_path / "jobs"
    return CrashScene()


def ends_well(scene: CrashScene, at: int) -> bool:
    """Die at the `at`-th point and go on with another kernel; return whether there was such a point."""
    row = scene.begin()
    scene._hear()
    checkpoints = Checkpoints(at, die)
    kernels = [scene.worker(checkpoints), scene.worker()]
    has_died = False
    for _ in range(300):
        has_died = has_died or dies(kernels[0], scene.clock)
        if has_died:
            kernels[1].sweep()
        row.refresh_from_db()
        if row.ended_at:
            break
        scene.clock.pass_(timedelta(seconds=1))
    assert row.state == BenchmarkState.FINISHED, (at, row.reason)
    (run,) = BenchmarkRun.objects.filter(benchmark=row)
    assert run.state == RunState.VALID, (at, checkpoints.names[-3:], run.reason)
    jobs = [one for one in scene.runner.started if one.owner.endswith(f"-{run.pk}")]
    assert len(jobs) == 1, "a window is measured once"
    names = list(BenchmarkFigure.objects.filter(run=run).values_list("name", flat=True))
    assert len(names) == len(set(names)) > 10
    assert Deployment.objects.filter(service=f"bench-{row.pk}").count() == 1
    assert not Deployment.objects.exclude(state__in=GONE).exists()
    assert not scene.world._workers
    assert not scene.runner.jobs
    assert not BenchmarkLease.objects.exists()
    return has_died


@pytest.mark.parametrize("stride", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_a_death_at_any_point_repeats_no_window_and_leaves_nothing(scene: CrashScene, stride: int) -> None:
    points = 0
    for at in crashes():
        if at % stride == 0:
            points += 1
            if not ends_well(scene, at):
                break
    assert points > 60 / stride
