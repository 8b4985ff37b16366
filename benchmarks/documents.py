"""A benchmark as a JSON document, for programs: `schema` rises when a field changes its meaning."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext

from benchmarks import selectors
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkRun
from benchmarks.planning import BenchmarkPlan
from benchmarks.selectors import CellEstimate
from benchmarks.spec import spec_of
from benchmarks.validity import BY_NAME

SCHEMA = 1
NOT_SHOWN = ("windows", "guard", "workers")
"""Parts of a run's environment that its rules look at."""
MOST_REFUSED = 50
"""Configurations that cannot run and that a preview names."""


def document_of(benchmark: Benchmark) -> dict[str, Any]:
    runs = list(benchmark.runs.select_related("benchmark__scenario").order_by("position"))
    spec = spec_of(benchmark.spec)
    by_cell: dict[int, list[BenchmarkRun]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell_id].append(run)
    cells = benchmark.cells.select_related("version__model", "image")
    estimates = selectors.estimates(benchmark)
    return {
        "schema": SCHEMA,
        "scenario": benchmark.scenario.content,
        "scenario_digest": benchmark.scenario.digest,
        "spec": benchmark.spec,
        "estimates": benchmark.estimates,
        "conclusion": benchmark.conclusion,
        "cells": [cell_document(cell, by_cell[cell.pk], estimates.get(cell.pk, ())) for cell in cells],
        "runs": [run_document(run, selectors.value_of(run, spec)) for run in runs],
    }


def cell_document(
    cell: BenchmarkCell, runs: Sequence[BenchmarkRun], estimates: Sequence[CellEstimate]
) -> dict[str, Any]:
    return {
        "id": cell.pk,
        "version": str(cell.version),
        "engine": cell.engine,
        "image": cell.image.name if cell.image else None,
        "machine": cell.machine,
        "parameters": cell.parameters,
        "digest": cell.digest,
        "refusal": cell.refusal,
        "prior": cell.prior,
        "runs": len(runs),
        "figures": [
            {"rate": one.rate, "name": one.name, "unit": one.unit, **asdict(one.value)} for one in estimates
        ],
    }


def run_document(run: BenchmarkRun, value: float | None) -> dict[str, Any]:
    return {
        "id": run.pk,
        "position": run.position,
        "cell": run.cell_id,
        "repeat": run.repeat,
        "state": run.state,
        "value": value,
        "reason": run.reason,
        "violations": [{**one, "said": violation_text(one)} for one in run.violations],
        "environment": {
            name: told for name, told in run.environment.items() if name not in ("windows", "guard")
        },
        "began_at": run.began_at and run.began_at.isoformat(),
        "ended_at": run.ended_at and run.ended_at.isoformat(),
    }


def violation_text(violation: Mapping[str, Any]) -> str:
    """Return the violation in words, in the reader's language."""
    words = gettext(BY_NAME[violation["rule"]].words)
    return words % {"value": f"{violation['value']:.4g}", "limit": f"{violation['limit']:.4g}"}


def plan_document(plan: BenchmarkPlan) -> dict[str, Any]:
    return {
        "cells": len(plan.cells),
        "runs": plan.runs,
        "hours": round(plan.hours, 2),
        "gpu_hours": round(plan.gpu_hours, 2),
        "price": None if plan.price is None else round(plan.price, 2),
        "refused": [
            {"parameters": dict(one.plan.parameters), "engine": one.plan.engine, "why": one.refusal}
            for one in plan.cells
            if one.refusal
        ][:MOST_REFUSED],
    }


def comparison_document(ours: BenchmarkCell, theirs: BenchmarkCell) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "ours": ours.pk,
        "theirs": theirs.pk,
        "figures": [
            {"rate": rate, "name": name, **asdict(ratio), "samples": list(ratio.samples)}
            for rate, name, ratio in selectors.compared(ours, theirs)
        ],
    }
