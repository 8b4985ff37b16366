"""The control plane dies at any point of a run, or the disk is full: one version and one check remain."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from benchmarks.models import Benchmark
from common import disk
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import JobSpec
from common.reconcile import Reconciler
from models_registry import files
from models_registry.models import Version, VersionFile
from optimization.models import AccuracyCheck, OptimizationRun
from optimization.programs.scoring import SCORES
from optimization.reconcilers.runs import OptimizationReconciler
from optimization.services import cancel_run, start_run
from tests.cast import person
from tests.clusters.world import Scene
from tests.crash.harness import Checkpoints, crashes, die, dies
from tests.optimization.tiny import sentences, write_items

pytestmark = pytest.mark.django_db
ITEMS = 40


def job(spec: JobSpec) -> dict[str, Any]:
    """Write what the programs write, without a model."""
    order = json.loads(spec.stdin)
    if "module" in order:
        output = Path(order["output"])
        output.mkdir(parents=True, exist_ok=True)
        (output / "config.json").write_text("{}")
        return {"libraries": {}, "seconds": 1.0, "memory_bytes": 1, "details": {}}
    lines = [
        {"metric": "perplexity", "parent": -1.0, "child": -1.0 - one / 1e5, "text": "x"}
        for one in range(ITEMS)
    ]
    Path(order["output"]).mkdir(parents=True, exist_ok=True)
    (Path(order["output"]) / SCORES).write_text("".join(json.dumps(one) + "\n" for one in lines))
    return {"items": ITEMS}


class RunScene(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.runner = FakeRunner(job)
        self.actor = of_user(person("ada", vision="developer"))
        VersionFile.objects.bulk_create(
            VersionFile(version=self.version, path=path, size=1, sha256="0" * 64)
            for path in ("model.safetensors", "test.jsonl")
        )

    def reconcilers(self) -> list[Reconciler[Any]]:
        return [OptimizationReconciler(self.runner)]

    def begin(self) -> OptimizationRun:
        return start_run(
            actor=self.actor, team=self.team, parent=str(self.version), recipe="local/int8-dynamic",
            cluster="local", test=f"{self.version}/test.jsonl",
        )  # fmt: skip

    def others_go_on(self) -> None:
        """Import and benchmark, whose own crash points are tried elsewhere, end well."""
        importing = Version.objects.filter(state="importing")
        importing.update(state="ready", digest="1" * 64, ready_at=timezone.now(), file_count=1)
        Benchmark.objects.filter(state="running").update(state="finished", ended_at=timezone.now())


@pytest.fixture
def scene(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> RunScene:
    settings.SLIPWAY_HOME = tmp_path
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    settings.SLIPWAY_JOBS_DIR = tmp_path / "jobs"
    write_items(tmp_path / "files/test.jsonl", sentences(ITEMS, seed=3))
    monkeypatch.setattr(files, "materialise", lambda _version: tmp_path / "files")
    return RunScene()


def ends_well(scene: RunScene, at: int, home: Path) -> bool:
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
        scene.others_go_on()
        row.refresh_from_db()
        if row.ended_at and not row.is_held:
            break
        scene.clock.pass_(timedelta(seconds=1))
    # The benchmark that is played has no figures.
    assert (row.state, row.reason) == ("failed", "The benchmark has too few valid runs for a verdict."), at
    children = Version.objects.filter(lineage__job=f"optimization {row.name}")
    assert [one.pk for one in children] == [row.child_id], (at, checkpoints.names[-3:])
    assert AccuracyCheck.objects.get(run=row).items == ITEMS
    assert Benchmark.objects.filter(name=f"optimization-{row.pk}").count() == 1
    assert not scene.runner.jobs
    assert not (home / "optimization" / str(row.pk)).exists()
    return has_died


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_death_at_any_point_makes_one_version_and_one_check(
    scene: RunScene, stride: int, tmp_path: Path
) -> None:
    points = 0
    for at in crashes():
        if at % stride == 0:
            points += 1
            if not ends_well(scene, at, tmp_path):
                break
    assert points > 40 / stride


def test_a_run_waits_for_room_and_can_be_cancelled_meanwhile(
    scene: RunScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = scene.begin()
    monkeypatch.setattr(disk, "is_full", lambda: True)
    scene.pass_(60)
    row.refresh_from_db()
    assert (row.state, scene.runner.started, row.attempts) == ("running", [], 0)
    cancel_run(row, actor=scene.actor)
    scene.pass_(5)
    row.refresh_from_db()
    assert (row.state, row.is_held) == ("cancelled", False)

    monkeypatch.setattr(disk, "is_full", lambda: False)
    row = scene.begin()
    scene.pass_(5)
    assert len(scene.runner.started) == 1
