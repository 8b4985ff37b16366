"""Runs of recipes by real jobs: a taught model in a real store, and a cluster in memory to benchmark on."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import validity
from models_registry.models import Model, Version
from models_registry.reconcilers.versions import VersionReconciler
from models_registry.services import imports
from optimization.models import OptimizationRun
from optimization.reconcilers.runs import OptimizationReconciler
from optimization.services import start_run
from optimization.states import ENDED
from tests.benchmarks.conftest import OF_THE_MACHINE, BenchmarkScene
from tests.optimization.tiny import sentences, write_items, write_taught_model

LOAD: dict[str, Any] = {"arrivals": "concurrency", "rates": [4], "requests": 24, "input": 20, "output": 8}


class OptimizationScene(BenchmarkScene):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.kernel.register(VersionReconciler())
        self.kernel.register(OptimizationReconciler())

    def import_version(self, label: str, directory: Path) -> Version:
        name, _, version = label.partition(":")
        model = Model.objects.get_or_create(team=self.team, name=name)[0]
        row = imports.import_version(actor=self.actor, model=model, source=str(directory), version=version)
        self.run_until(lambda: Version.objects.get(pk=row.pk).state not in ("importing",), seconds=60)
        row.refresh_from_db()
        assert row.state == "ready", row.reason
        return row

    def start(self, recipe: str = "local/int8-dynamic", **order: Any) -> OptimizationRun:
        given = {
            "parent": "story:taught",
            "cluster": "local",
            "test": "sets:v1/test.jsonl",
            "scenario": LOAD,
            "margin": 3.0,
        }
        return start_run(actor=self.actor, team=self.team, recipe=recipe, **{**given, **order})

    def end(self, row: OptimizationRun, *, seconds: float = 240) -> OptimizationRun:
        def is_over() -> bool:
            row.refresh_from_db()
            return row.state in ENDED and not row.is_held

        self.run_until(is_over, seconds=seconds)
        return row

    def wait_for(self, row: OptimizationRun, state: str, *, seconds: float = 60) -> float:
        began = time.monotonic()
        self.run_until(lambda: OptimizationRun.objects.get(pk=row.pk).state == state, seconds=seconds)
        row.refresh_from_db()
        return time.monotonic() - began


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_taught_model(tmp_path_factory.mktemp("taught") / "model")
    (directory / "README.md").write_text("---\nlicense: cc-by-nd-4.0\n---\n# Taught\n")
    return directory


@pytest.fixture
def shop(
    db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, taught: Path
) -> Iterator[OptimizationScene]:
    calm = [rule for rule in validity.RULES if rule.name not in OF_THE_MACHINE]
    monkeypatch.setattr(validity, "RULES", calm)
    settings.SLIPWAY_HOME = tmp_path
    settings.SLIPWAY_JOBS_DIR = tmp_path / "jobs"
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    settings.SLIPWAY_IMPORT_ROOTS = [tmp_path / "imports", taught.parent]
    found = OptimizationScene(tmp_path / "imports")
    write_items(found.root / "sets/test.jsonl", sentences(120, seed=3))
    write_items(found.root / "sets/calibration.jsonl", [f"so {one}" for one in sentences(40, seed=4)])
    found.import_version("story:taught", taught)
    found.import_version("sets:v1", found.root / "sets")
    with found.world.servers:
        yield found
