"""Figures of the best configuration of each version, beside the version's other metrics."""

from contextlib import suppress

from benchmarks import selectors
from benchmarks.conclusion import BenchmarkConclusion
from benchmarks.deploying import ACTOR
from benchmarks.models import Benchmark, BenchmarkCell
from common.errors import SlipwayError
from models_registry.services.evaluations import FigureInput, evaluate_version

REPORTED = ("goodput", "ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "output_rate")
HIGHER_IS_BETTER = frozenset({"goodput", "output_rate"})


def report_to_versions(benchmark: Benchmark, conclusion: BenchmarkConclusion) -> None:
    """Add the figures of each version's best cell, at the highest of its valid rates, to its metrics."""
    cells = benchmark.cells.select_related("version__model").in_bulk([one.cell for one in conclusion.cells])
    best: dict[int, BenchmarkCell] = {}
    for one in conclusion.cells:
        best.setdefault(cells[one.cell].version_id, cells[one.cell])
    estimates = selectors.estimates(benchmark)
    for cell in best.values():
        found = [one for one in estimates.get(cell.pk, ()) if one.name in REPORTED]
        rate = max((one.rate for one in found), default=0)
        figures = [
            FigureInput(
                name=one.name,
                value=one.value.value,
                dataset=f"benchmark {benchmark.name}",
                unit=one.unit,
                is_higher_better=one.name in HIGHER_IS_BETTER,
            )
            for one in found
            if one.rate == rate
        ]
        if figures:
            # A version that was deleted meanwhile takes no figures, and ends no benchmark.
            with suppress(SlipwayError):
                evaluate_version(actor=ACTOR, version=cell.version, figures=figures, reason=f"{benchmark}")
