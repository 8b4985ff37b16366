"""Recipes in environments of their own, which are made where there are none: 1.5 GB from a package index."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from models_registry.models import Version
from optimization.models import AccuracyCheck
from optimization.programs import environment
from optimization.recipes import recipes
from optimization.recipes.compressor.quantizing import check_groups
from optimization.recipes.order import RecipeRefusal
from optimization.services import cancel_run
from tests.optimization.conftest import OptimizationScene
from tests.optimization.tiny import write_task

RECIPE = "compressor/smoothquant-w8a8"
OF_ENVIRONMENTS = sorted(name for name, one in recipes().items() if one.lock and not one.needs_gpu)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder in which environments are made, once for all tests."""
    return tmp_path_factory.mktemp("made") / "environments"


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.timeout(900)
def test_a_task_file_judges_parent_and_child_by_lm_evals_own_metrics(
    shop: OptimizationScene, made: Path, settings: Any
) -> None:
    settings.SLIPWAY_RUN_DIR = made.parent / "run"
    write_task(shop.root / "tasks", shop.root / "sets/test.jsonl")
    shop.import_version("tasks:v1", shop.root / "tasks")
    row = shop.start(test="tasks:v1/prose.yaml", margin=5.0)
    shop.wait_for(row, "checking", seconds=700)
    shop.run_until(lambda: AccuracyCheck.objects.filter(run=row).exists(), seconds=120)
    verdict = AccuracyCheck.objects.get(run=row).verdicts.get()
    assert (verdict.metric, verdict.items, verdict.result) == ("prose:byte_perplexity", 120, "passed")
    assert 1 < verdict.parent_value < 8
    row = shop.end(cancel_run(row, actor=shop.actor), seconds=60)

    # A template that reaches for Python's own objects is stopped before it does anything.
    task = shop.root / "tasks/prose.yaml"
    task.write_text(task.read_text().replace("{{text}}", "{{text.__class__}}"))
    shop.import_version("tasks:v2", shop.root / "tasks")
    row = shop.end(shop.start(test="tasks:v2/prose.yaml"), seconds=200)
    assert row.state == "failed"
    assert "SecurityError" in row.reason


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", OF_ENVIRONMENTS)
def test_a_recipe_makes_a_model_that_reloads_with_a_small_error(made: Path, name: str) -> None:
    place = environment.environment_of(recipes()[name].family).ensure(made)
    assert environment.failure_of("optimization.programs.self_test", name, place) == ""


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.timeout(600)
def test_a_run_makes_its_version_in_the_environment_of_its_family(
    shop: OptimizationScene, made: Path, settings: Any
) -> None:
    settings.SLIPWAY_RUN_DIR = made.parent / "run"
    row = shop.start(RECIPE, calibration="sets:v1/calibration.jsonl")
    shop.wait_for(row, "checking", seconds=300)
    child = Version.objects.get(pk=row.child_id)
    assert child.quantization == "compressed-tensors"
    assert child.lineage["libraries"]["llmcompressor"] == "0.14.0.1"
    shop.run_until(lambda: AccuracyCheck.objects.filter(run=row).exists(), seconds=120)
    assert AccuracyCheck.objects.get(run=row).verdicts.get().result == "passed"


def test_groups_that_do_not_divide_a_layer_are_refused() -> None:
    layers = nn.Sequential(nn.Linear(96, 8), nn.Linear(128, 8))
    with pytest.raises(RecipeRefusal, match="Groups of 64 do not divide layers of 96 inputs"):
        check_groups(layers, {"linear": {"weights": {"group_size": 64}}})
    check_groups(layers, {"linear": {"weights": {"group_size": 32}}})


@pytest.mark.django_db
@pytest.mark.process
@pytest.mark.timeout(300)
def test_an_environment_that_cannot_be_made_or_does_not_work_ends_the_run_with_words(
    shop: OptimizationScene, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    """By the real maker: a package that no index has, then an environment without the library."""
    settings.SLIPWAY_RUN_DIR = tmp_path / "run"
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    row = shop.start(RECIPE, calibration="sets:v1/calibration.jsonl")
    row = shop.end(row, seconds=100)
    assert row.state == "failed"
    assert "cannot be made: uv" in row.reason

    made = environment.environment_of("compressor")
    place = tmp_path / "environments" / made.key
    subprocess.run(["uv", "venv", "--quiet", str(place)], check=True, timeout=60)
    row = shop.end(shop.start(RECIPE, calibration="sets:v1/calibration.jsonl"), seconds=100)
    assert row.state == "failed"
    assert "is broken. Self-test of compressor/smoothquant-w8a8: ModuleNotFoundError" in row.reason
