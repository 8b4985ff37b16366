"""A benchmark from its order to its result, with a real load generator."""

import gzip
import json
import os
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.conf import settings

from accounts.models import WebhookEvent
from accounts.services.webhooks import create_webhook
from benchmarks import documents, figures, selectors
from benchmarks.load.records import read
from benchmarks.models import Benchmark, BenchmarkLease, BenchmarkRun
from benchmarks.services import cancel_benchmark
from benchmarks.spec import DEFAULT_SLOTS
from benchmarks.states import BenchmarkState, RunState
from benchmarks.webhook_events import benchmark_payload
from clusters.models import Deployment
from clusters.states import GONE
from common.jobs.notes import JobNotes
from model_store.blob_store import store
from models_registry.models import Evaluation
from tests.benchmarks.conftest import BenchmarkScene
from tests.cast import SYSTEM

pytestmark = [pytest.mark.process, pytest.mark.any_database]
"""They wait more than they compute."""


def states(row: Benchmark) -> list[str]:
    return list(
        BenchmarkRun.objects.filter(benchmark=row).order_by("position").values_list("state", flat=True)
    )


def test_a_benchmark_deploys_loads_and_says_which_configuration_is_best(scene: BenchmarkScene) -> None:
    objective = {"kind": "latency", "figure": "tpot_p50"}
    row = scene.run_to_end(scene.begin(objective=objective, repeats=2), seconds=80)

    assert row.state == BenchmarkState.FINISHED, row.reason
    runs = list(BenchmarkRun.objects.filter(benchmark=row).order_by("position"))
    assert [run.cell.position for run in runs] == [1, 2, 2, 1], "A B B A"
    assert row.conclusion["best"] == row.cells.get(position=1).pk
    assert row.conclusion["verdict"] == "no verdict", "two repeats are shown and not judged"
    assert row.conclusion["cells"][1]["against_best"]["ratio"] > 2, "20 ms against 1, on a busy machine"
    assert not scene.running(), "every worker was removed"
    assert not BenchmarkLease.objects.exists()
    told = json.loads(json.dumps(documents.document_of(row)))
    schema = json.loads(Path("docs/benchmark-result.schema.json").read_text())
    jsonschema.validate(told, schema, jsonschema.Draft202012Validator)
    assert runs[0].environment["engine"] == "echo"
    assert runs[0].environment["flags"] == {
        "token_seconds": 0.001, "slots": DEFAULT_SLOTS, "replicas": 1, "device": "auto",
    }  # fmt: skip
    series = runs[0].system.content["series"]
    assert any(series["memory"]), "its machine was looked at"
    deployments = Deployment.objects.filter(service=f"bench-{row.pk}")
    assert deployments.count() == len(runs), "a fresh server for each run"
    assert set(deployments.values_list("version_label", flat=True)) == {"story:v1"}

    first = next(run for run in runs if run.state == RunState.VALID)
    with store().opened(first.records.sha256) as content:
        told = gzip.decompress(content.read_at(0, content.size)).decode()
    (window,) = read(told.splitlines())
    again = figures.summarise(window, row.scenario.load)
    stored = dict(first.figures.values_list("name", "value"))
    assert stored == pytest.approx({name: one.value for name, one in again.figures.items()})
    assert Evaluation.objects.filter(dataset=f"benchmark {row.name}", name="tpot_p50").exists()


def test_cancelling_removes_everything(scene: BenchmarkScene) -> None:
    row = scene.begin({"rates": [1], "requests": 100})
    scene.run_until(lambda: RunState.MEASURING in states(row))
    scene.run_until(lambda: any(server.asked for server in scene.world.by_worker.values()))
    cancel_benchmark(row, actor=scene.actor, reason="Not needed.")
    scene.run_to_end(row, seconds=30)
    assert row.state == BenchmarkState.CANCELLED
    assert set(states(row)) == {RunState.CANCELLED}
    assert not scene.running()
    assert not BenchmarkLease.objects.exists()
    assert not Deployment.objects.exclude(state__in=GONE).exists()


def test_a_killed_generator_is_no_result_and_a_fresh_server_takes_its_place(scene: BenchmarkScene) -> None:
    parameters = {"engines": ["echo"], "parameters": {"token_seconds": [0.001]}}
    row = scene.begin({"rates": [10], "requests": 60}, space=parameters)
    scene.run_until(lambda: any(server.asked > 10 for server in scene.world.by_worker.values()))
    run = BenchmarkRun.objects.get(benchmark=row)
    notes = JobNotes(Path(settings.SLIPWAY_JOBS_DIR) / run.job).read("started")
    os.kill(notes["pid"], signal.SIGKILL)
    scene.run_to_end(row)
    assert states(row)[0] == RunState.INVALID
    assert RunState.VALID in states(row)[1:]
    assert Deployment.objects.filter(service=f"bench-{row.pk}").count() == len(states(row))
    run.refresh_from_db()
    assert not run.figures.exists(), "half a window is no window"


def test_a_configuration_that_does_not_start_is_a_result_with_its_reason(scene: BenchmarkScene) -> None:
    scene.world.cannot_run = "out of memory"
    row = scene.run_to_end(scene.begin(ready_within_seconds=5))
    assert row.state == BenchmarkState.FAILED
    assert set(states(row)) == {RunState.FAILED}
    run = BenchmarkRun.objects.filter(benchmark=row)[0]
    assert "out of memory" in run.reason


def test_a_spent_quota_ends_it_and_is_told_with_its_end(scene: BenchmarkScene, settings: Any) -> None:
    row = scene.begin({"rates": [40], "requests": 12})
    create_webhook(
        actor=SYSTEM, team=scene.team, url="https://ci.example/hook",
        events=["benchmark.ended", "benchmark.budget_spent"],
    )  # fmt: skip
    settings.SLIPWAY_BENCHMARK_GPU_HOURS = 1e-9
    scene.run_until(lambda: any(server.asked for server in scene.world.by_worker.values()))
    run = BenchmarkRun.objects.get(benchmark=row, position=1)
    BenchmarkRun.objects.filter(pk=run.pk).update(environment={**run.environment, "gpus": 1})
    scene.run_to_end(row)
    assert "GPU hours" in row.reason
    told = dict(WebhookEvent.objects.values_list("type", "ids"))
    assert told["benchmark.ended"] == {"benchmark_id": row.pk, "state": row.state}
    assert told["benchmark.budget_spent"] == {"benchmark_id": row.pk}
    payload = benchmark_payload({"benchmark_id": row.pk})
    assert payload is not None
    assert payload.team_id == scene.team.pk
    assert payload.data["benchmark"]["result"]["schema"] == 1


def test_one_run_at_a_time_has_a_machine(scene: BenchmarkScene) -> None:
    space = {"engines": ["echo"], "parameters": {"token_seconds": [0.001]}}
    one, other = scene.begin(space=space), scene.begin(space=space)
    most = 0

    def both_ended() -> bool:
        nonlocal most
        most = max(most, len(scene.running()))
        for row in (one, other):
            row.refresh_from_db()
        return one.ended_at is not None and other.ended_at is not None

    scene.run_until(both_ended, seconds=80)
    assert most == 1


def test_workers_of_a_run_that_is_gone_are_found_by_their_label(scene: BenchmarkScene) -> None:
    row = scene.begin({"rates": [1], "requests": 100})
    scene.run_until(lambda: bool(scene.running()))
    BenchmarkRun.objects.filter(benchmark=row).delete()
    row.delete()
    scene.run_until(lambda: not scene.running(), seconds=30)


def test_a_run_with_a_broken_rule_never_wins(scene: BenchmarkScene) -> None:
    row = scene.begin(space={"engines": ["echo"], "parameters": {"token_seconds": [0.001]}})
    scene.run_until(lambda: any(server.asked for server in scene.world.by_worker.values()))
    for server in scene.world.by_worker.values():
        server.script.ends_early = True
    scene.run_until(lambda: RunState.INVALID in states(row))
    run = BenchmarkRun.objects.get(benchmark=row, position=1)
    assert {"outputs"} <= {one["rule"] for one in run.violations}
    assert selectors.values_of(selectors.past_runs(row)) == {}
