"""Figures of the best configuration of each version, beside the version's other metrics."""

from contextlib import suppress
from statistics import fmean

from benchmarks import selectors
from benchmarks.deploying import ACTOR
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.spec import spec_of
from common.errors import SlipwayError
from models_registry.services.evaluations import FigureInput, evaluate_version

REPORTED = ("goodput", "ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "output_rate")
HIGHER_IS_BETTER = frozenset({"goodput", "output_rate"})


def report_to_versions(benchmark: Benchmark) -> None:
    """Add the figures of each version's best cell, at the highest of its valid rates, to its metrics."""
    objective = spec_of(benchmark.spec).objective
    values = selectors.values_of(selectors.past_runs(benchmark))
    best: dict[int, BenchmarkCell] = {}
    for cell in benchmark.cells.filter(pk__in=values).select_related("version__model"):
        known = best.get(cell.version_id)
        is_lower = known is not None and fmean(values[cell.pk]) < fmean(values[known.pk])
        if known is None or is_lower == objective.is_lower_better:
            best[cell.version_id] = cell
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
