"""At any point of a run the control plane dies or loses its database: one version and one check remain."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from accounts.actors import of_token, of_user
from accounts.services.tokens import use_token
from benchmarks.models import Benchmark
from clusters.backends.extras import ClusterJobPlace
from clusters.models import Cluster, Node
from common import disk
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import JobSpec
from common.reconcile import Reconciler
from images.models import RuntimeImage
from models_registry import files
from models_registry.models import Version, VersionFile
from optimization import job_results, job_tokens
from optimization.budgets import batch_document
from optimization.errors import InvalidOptimization
from optimization.job_orders import order_of
from optimization.models import AccuracyCheck, OptimizationJobToken, OptimizationRun
from optimization.programs.scoring import SCORES
from optimization.reconcilers.runs import OptimizationReconciler
from optimization.services import cancel_run, plan_batch, start_batch, start_run
from tests.cast import person
from tests.clusters.world import Scene
from tests.crash.harness import Checkpoints, crashes, die, dies
from tests.images.builders import image, reference
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


class JobsOfCluster(FakeRunner):
    """Jobs of a cluster, which hand in by their token what the programs would have written."""

    input_file = "/run/slipway-job/stdin"

    def owners(self) -> Mapping[str, str]:
        return {name: name.rpartition("-")[0] for name in self.jobs}


def job_of_cluster(spec: JobSpec) -> dict[str, Any]:
    told = json.loads(spec.stdin)
    run = job_tokens.run_of(of_token(use_token(told["token"])))
    with TemporaryDirectory() as directory:
        # As `in_cluster` does it: the program's own order, with paths of its machine.
        values: dict[str, Any] = order_of(run).document()["values"]
        order = {**values, "output": f"{directory}/output"}
        result = job(replace(spec, stdin=json.dumps(order).encode()))
        files = []
        for path in sorted(Path(order["output"]).iterdir()):
            content = path.read_bytes()
            sha256 = hashlib.sha256(content).hexdigest()
            job_results.take_file(run, sha256, len(content), BytesIO(content))
            files.append({"path": path.name, "size": len(content), "sha256": sha256})
    job_results.take_result(run, result, files)
    return {}


class RunScene(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.runner = FakeRunner(job)
        self.jobs_of_cluster = JobsOfCluster(job_of_cluster, host="")
        self.actor = of_user(person("ada", vision="developer"))
        VersionFile.objects.bulk_create(
            VersionFile(version=self.version, path=path, size=1, sha256="0" * 64)
            for path in ("model.safetensors", "test.jsonl")
        )

    def reconcilers(self) -> list[Reconciler[Any]]:
        return [OptimizationReconciler(self.runner, backend_of=lambda _cluster: self)]  # type: ignore[arg-type, return-value]

    def job_place(self) -> ClusterJobPlace:
        """Return the place of jobs, as the backend of a cluster does."""
        return ClusterJobPlace(self.jobs_of_cluster, "https://slipway.example")

    def begin(self, place: str = "local") -> OptimizationRun:
        row = start_run(
            actor=self.actor, team=self.team, parent=str(self.version), recipe="local/int8-dynamic",
            cluster="local", test=f"{self.version}/test.jsonl",
        )  # fmt: skip
        if place == "cluster":
            where = {"store_url": "https://slipway.example", "jobs_image": reference("jobs")}
            Cluster.objects.filter(pk=self.cluster.pk).update(kind="kubernetes", settings=where)
            if not RuntimeImage.objects.exists():
                image("worker", engine="transformers", reference=reference("worker"), runs_on_cpu=True)
            Node.objects.get_or_create(
                cluster=self.cluster, uid="1", name="plain", state="ready", defaults={"seen_at": self.clock()}
            )
            OptimizationRun.objects.filter(pk=row.pk).update(place=place)
            row.refresh_from_db()
        return row

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


def lose_database() -> None:
    raise OperationalError("server closed the connection unexpectedly")


def ends_well(scene: RunScene, at: int, home: Path, place: str, mishap: Callable[[], None] = die) -> bool:
    """Have a mishap at the `at`-th point, go on with another kernel if it was a death, and return whether
    there was such a point.
    """
    row = scene.begin(place)
    scene._hear()
    checkpoints = Checkpoints(at, mishap)
    kernels = [scene.worker(checkpoints), scene.worker()]
    has_died = False
    for _ in range(300):
        with suppress(OperationalError):
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
    assert not scene.jobs_of_cluster.jobs
    assert bool(scene.runner.started) == (place == "local")
    assert not OptimizationJobToken.objects.filter(token__revoked_at=None).exists()
    assert not (home / "optimization" / str(row.pk)).exists()
    return checkpoints.passed >= at


@pytest.mark.parametrize("place", ["local", "cluster"])
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_death_at_any_point_makes_one_version_and_one_check(
    scene: RunScene, stride: int, place: str, tmp_path: Path
) -> None:
    points = 0
    for at in crashes():
        if at % stride == 0:
            points += 1
            if not ends_well(scene, at, tmp_path, place):
                break
    assert points > 40 / stride


@pytest.mark.parametrize("place", ["local", "cluster"])
@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_a_lost_database_at_any_point_makes_one_version_and_one_check(
    scene: RunScene, stride: int, place: str, tmp_path: Path
) -> None:
    points = 0
    for at in crashes():
        if at % stride == 0:
            points += 1
            if not ends_well(scene, at, tmp_path, place, lose_database):
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


def test_recipes_with_a_budget_take_turns_and_none_exceeds_it(scene: RunScene) -> None:
    two = ["local/int8-dynamic", "local/int2-dynamic"]
    order = {"parent": str(scene.version), "cluster": "local", "test": f"{scene.version}/test.jsonl"}
    needed = plan_batch(actor=scene.actor, team=scene.team, recipes=two, **order)[0].hours
    first, second = start_batch(
        actor=scene.actor, team=scene.team, recipes=two, parameters={}, budget_hours=needed * 1.001, **order
    )
    scene.pass_(5)
    second.refresh_from_db()
    assert (second.state, second.reason) == ("preparing", f"Waiting for {first.name}.")
    scene.clock.pass_(timedelta(hours=1))
    cancel_run(first, actor=scene.actor)
    scene.pass_(5)
    second.refresh_from_db()
    assert second.state == "cancelled"
    assert second.reason.startswith("Budget: 1.0")
    told = batch_document(second)
    assert told
    assert [one["state"] for one in told["runs"]] == ["cancelled", "cancelled"]
    assert told["used"]["hours"] == pytest.approx(1, abs=0.01)

    for wrong in ({"parameters": {"share": 0.5}}, {"budget_cost": 2.0}, {"recipes": [two[0]] * 2}):
        with pytest.raises(InvalidOptimization) as refusal:
            start_batch(actor=scene.actor, team=scene.team, **{"recipes": two, **order, **wrong})
        assert {name.partition(".")[0] for name in refusal.value.fields} == set(wrong)
