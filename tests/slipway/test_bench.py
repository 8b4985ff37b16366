"""What the exit status of `slipway bench` tells a pipeline: the promise of the README."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from benchmarks.models import Benchmark, BenchmarkFigure, BenchmarkRun
from benchmarks.states import BenchmarkState, RunState
from clusters.models import Cluster
from tests.cast import person, team, token_of
from tests.clusters.world import version_of
from tests.slipway.conftest import CommandResult, Terminal

SPEC: dict[str, Any] = {
    "name": "slots",
    "team": "vision",
    "cluster": "local",
    "scenario": {"rates": [2]},
    "spec": {
        "versions": ["story:v1"],
        "space": {"engines": ["transformers"], "parameters": {"slots": [2, 4]}},
    },
}


@pytest.fixture
def spec(terminal: Terminal, developer: str, tmp_path: Path) -> Path:
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})
    version_of(team("vision"))
    file = tmp_path / "spec.yaml"
    file.write_text(json.dumps(SPEC))
    return file


def ending(terminal: Terminal, state: BenchmarkState, spec: Path, *options: object) -> CommandResult:
    """Run it and wait; it ends in that state meanwhile."""
    rows = Benchmark.objects.filter(name="slots")
    terminal.while_waiting = lambda: rows.update(state=state, ended_at=timezone.now(), reason="So it ends.")
    return terminal("bench", "run", "-f", spec, "--wait", *options)


@pytest.mark.parametrize(
    ("state", "status"),
    [(BenchmarkState.FINISHED, 0), (BenchmarkState.FAILED, 1), (BenchmarkState.CANCELLED, 1)],
)
def test_waiting_ends_with_0_for_a_result_and_1_without(
    terminal: Terminal, spec: Path, state: BenchmarkState, status: int
) -> None:
    said = ending(terminal, state, spec, "--output", "json")
    assert said.status == status, said
    assert said.document["state"] == state, "one document on stdout, whatever came of it"


def test_other_statuses_say_whose_fault_it_was(terminal: Terminal, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(json.dumps({**SPEC, "scenario": {"targets": {"ttft_ms": 0}}}))
    said = terminal("bench", "run", "-f", tmp_path / "bad.yaml")
    assert said.status == 2
    assert "scenario.targets.ttft_ms" in said.err
    (tmp_path / "list.yaml").write_text("- 1")
    assert terminal("bench", "run", "-f", tmp_path / "list.yaml").status == 2
    viewer = token_of(person("vi", vision="viewer"))
    assert terminal("bench", "run", "-f", spec, token=viewer).status == 7
    assert terminal("bench", "run", "-f", spec, "--wait", "--timeout", 0).status == 4
    assert terminal("bench", "run", "-f", spec).status == 1, "the name is taken"


def test_a_comparison_fails_if_asked_to(terminal: Terminal, spec: Path) -> None:
    assert terminal("bench", "run", "-f", spec).status == 0
    row = Benchmark.objects.get()
    cells = list(row.cells.all())
    for position, (cell, value) in enumerate(zip(cells, (120.0, 100.0), strict=True), 1):
        run = BenchmarkRun.objects.create(
            benchmark=row, cell=cell, repeat=1, position=position, state=RunState.VALID
        )
        BenchmarkFigure.objects.create(
            run=run, window=0, rate=2, name="ttft_p95", unit="ms", value=value, is_valid=True
        )
    ours, theirs = (f"{row.pk}/{cell.pk}" for cell in cells)
    assert terminal("bench", "compare", ours, theirs, "--fail-if", "ttft_p95 > 1.3").status == 0
    said = terminal("bench", "compare", ours, theirs, "--fail-if", "ttft_p95 > 1.05")
    assert (said.status, "1.200" in said.err) == (1, True)
    assert terminal("bench", "compare", ours, theirs, "--fail-if", "ttft_p95 is slow").status == 2
    assert terminal("bench", "compare", ours, "31").status == 2
