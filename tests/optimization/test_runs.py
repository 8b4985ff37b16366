"""A recipe from its start to its verdict, by real jobs on a model that has learnt something."""

import hashlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from django.conf import settings

from benchmarks.models import Benchmark
from common.jobs.notes import JobNotes
from common.jobs.runners.subprocess import local_runner
from common.jobs.steps import owner
from models_registry.models import Version, VersionFile
from optimization.models import AccuracyCheck, OptimizationRun
from optimization.output import directory_of
from optimization.planning import warnings_about
from optimization.recipes.local import checkpoints, pruning
from optimization.recipes.order import MakingOrder
from optimization.services import cancel_run
from tests.optimization.conftest import OptimizationScene

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.process,
    pytest.mark.any_database,
    pytest.mark.timeout(600),
]


@pytest.mark.slow
def test_int8_passes_gate_and_benchmark_and_keeps_its_lineage(shop: OptimizationScene) -> None:
    row = shop.end(shop.start())
    assert (row.state, row.reason) == ("passed", "")
    child = Version.objects.get(pk=row.child_id)
    assert (child.parent_id, child.state, child.quantization) == (
        row.parent_id,
        "ready",
        "compressed-tensors",
    )
    assert child.lineage["recipe"] == "local/int8-dynamic"
    assert child.lineage["parent_digest"] == row.parent.digest
    assert {"torch", "safetensors"} <= child.lineage["libraries"].keys()
    assert child.size_bytes < row.parent.size_bytes * 0.7
    check = AccuracyCheck.objects.get(run=row)
    verdict = check.verdicts.get()
    assert (verdict.metric, verdict.result, verdict.items) == ("perplexity", "passed", 120)
    assert verdict.low > -verdict.margin
    assert [one["name"] for one in row.speed] == ["output_rate", "tpot_p50", "ttft_p50"]
    assert not (shop.root.parent / "optimization" / str(row.pk)).exists()

    again = shop.start()
    shop.wait_for(again, "checking")
    assert Version.objects.get(pk=again.child_id).digest == child.digest


def test_two_bits_are_refused_by_the_gate_before_any_benchmark(shop: OptimizationScene) -> None:
    row = shop.end(shop.start("local/int2-dynamic"))
    assert row.state == "rejected"
    assert "perplexity" in row.reason
    verdict = AccuracyCheck.objects.get(run=row).verdicts.get()
    assert verdict.child_value > 1.5 * verdict.parent_value
    assert not Benchmark.objects.exists()
    assert "cc-by-nd-4.0" in warnings_about(row.parent)[0]
    assert warnings_about(row.test_version) == []


def test_a_cancel_ends_the_recipes_process_within_ten_seconds(shop: OptimizationScene) -> None:
    row = shop.start(
        "local/prune-mlp",
        parameters={"share": 0.5, "recovery_steps": 100_000},
        calibration="sets:v1/calibration.jsonl",
    )
    shop.run_until(lambda: _stage(row) == "recovering", seconds=60)
    job = local_runner().observe(row.job)
    assert job.is_live
    began = time.monotonic()
    row = shop.end(cancel_run(row, actor=shop.actor), seconds=10)
    assert time.monotonic() - began < 10
    assert (row.state, row.child) == ("cancelled", None)
    assert local_runner().names(owner(row)) == []


def test_a_killed_recovery_goes_on_from_its_checkpoint_to_the_same_version(
    shop: OptimizationScene, taught: Path, tmp_path: Path
) -> None:
    parameters = {"share": 0.5, "recovery_steps": 60}
    calibration = shop.root / "sets/calibration.jsonl"
    order = MakingOrder(taught, tmp_path / "whole", parameters, seed=0, calibration=calibration)
    order.output.mkdir()
    pruning.make(order, lambda *_: None)

    row = shop.start("local/prune-mlp", parameters=parameters, calibration="sets:v1/calibration.jsonl")
    kept = directory_of(row) / "checkpoint" / checkpoints.FILE
    shop.run_until(kept.exists, seconds=150)
    started = JobNotes(Path(settings.SLIPWAY_JOBS_DIR) / OptimizationRun.objects.get(pk=row.pk).job).read(
        "started"
    )
    assert started
    os.kill(started["pid"], signal.SIGKILL)
    shop.wait_for(row, "checking", seconds=120)
    assert row.made["details"]["resumed_after_steps"] > 0
    files = dict(VersionFile.objects.filter(version=row.child_id).values_list("path", "sha256"))
    whole = (order.output / "model.safetensors").read_bytes()
    assert files["model.safetensors"] == hashlib.sha256(whole).hexdigest()


def _stage(row: OptimizationRun) -> str:
    row.refresh_from_db()
    return str(row.progress.get("stage", ""))


@pytest.mark.slow
def test_pruned_channels_leave_a_narrower_model(shop: OptimizationScene) -> None:
    row = shop.start(
        "local/prune-mlp",
        parameters={"share": 0.5, "recovery_steps": 20},
        calibration="sets:v1/calibration.jsonl",
    )
    shop.wait_for(row, "checking")
    child = Version.objects.get(pk=row.child_id)
    assert child.config["intermediate_size"] == 64
    assert row.made["details"]["width_before"] == 128
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(
        VersionFile.objects.filter(version=child).values_list("path", flat=True)
    )
    assert json.dumps(child.lineage["calibration"]).count("calibration.jsonl")
