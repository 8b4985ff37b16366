"""What the page of a benchmark shows: charts over the rate, its configurations, its result in words."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmarks import selectors
from benchmarks.documents import violation_text
from benchmarks.load.scenario import LoadScenario
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkRun
from benchmarks.pareto import pareto_chart
from benchmarks.selectors import CellEstimate
from benchmarks.spec import BenchmarkObjective, spec_of
from benchmarks.states import ObjectiveKind, RunState
from benchmarks.statistics import ComparisonVerdict, RatioEstimate
from benchmarks.styles import STYLES, unit_of_rate
from common.pages.charts import Chart, Limit, Series
from common.pages.formats import three_digits

MOST_LINES = len(STYLES)
VERDICTS: Mapping[str, Any] = {
    "best": gettext_lazy("Significantly better than every other configuration (95 %, adjusted by Holm)."),
    "tied": gettext_lazy("No significant difference from some other configurations."),
    "no verdict": gettext_lazy("No verdict: some configuration has fewer than 5 valid repeats."),
    "only": gettext_lazy("The only configuration that ran."),
}
STAGES: Mapping[str, Any] = {
    "environment": gettext_lazy("Preparing AIPerf"),
    "smoke": gettext_lazy("Smoke requests"),
    "warm up": gettext_lazy("Warm-up"),
    "measure": gettext_lazy("Measuring"),
}
COMPARISONS: Mapping[ComparisonVerdict, Any] = {
    "no verdict": gettext_lazy("No verdict"),
    "no difference": gettext_lazy("No significant difference"),
    "higher": gettext_lazy("Higher"),
    "lower": gettext_lazy("Lower"),
}


@dataclass(frozen=True, slots=True)
class CellLine:
    """A configuration in the table."""

    cell: BenchmarkCell
    differing: Mapping[str, Any]
    """Parameters that are not the same everywhere."""
    runs: Sequence[BenchmarkRun]
    value: str = ""
    interval: str = ""
    against_best: str = ""
    is_best: bool = False
    figures: Mapping[str, str] = field(default_factory=dict)
    """At the highest rate that counts."""

    @property
    def states(self) -> Sequence[tuple[str, int]]:
        """Return how many of its runs are in each state."""
        return list(Counter(run.state for run in self.runs).items())

    @property
    def name(self) -> str:
        told = (f"{name}={value}" for name, value in self.differing.items() if value != "")
        return " ".join(told) or str(self.cell.version)


@dataclass(frozen=True, slots=True)
class BenchmarkOutcome:
    lines: Sequence[CellLine]
    differing: Sequence[str]
    """Names of what is not the same in all configurations."""
    charts: Mapping[str, Chart]
    verdict: str
    best: CellLine | None
    run_count: int
    ended_count: int
    current: Sequence[tuple[BenchmarkRun, str]]
    """Active runs, and the progress of their load."""
    unit: str
    not_counted: Sequence[tuple[BenchmarkRun, Sequence[str]]]
    """Runs that do not count, and why."""


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure of two configurations at a rate."""

    name: str
    unit: str
    rate: str
    ours: str
    theirs: str
    ratio: RatioEstimate
    verdict: Any


def comparisons(benchmark: Benchmark, ours: BenchmarkCell, theirs: BenchmarkCell) -> list[ComparedFigure]:
    values = {
        (cell, one.rate, one.name): one
        for cell, some in selectors.estimates(benchmark).items()
        for one in some
    }
    found = []
    for rate, name, ratio in selectors.compared(ours, theirs):
        one, other = (values.get((cell.pk, rate, name)) for cell in (ours, theirs))
        if one and other:
            found.append(
                ComparedFigure(
                    name=name,
                    unit=one.unit,
                    rate=f"{rate:g}",
                    ours=three_digits(one.value.value),
                    theirs=three_digits(other.value.value),
                    ratio=ratio,
                    verdict=COMPARISONS[ratio.verdict],
                )
            )
    return found


def outcome_of(benchmark: Benchmark) -> BenchmarkOutcome:
    cells = list(benchmark.cells.select_related("version__model", "image"))
    runs = list(benchmark.runs.select_related("cell__version__model"))
    objective = spec_of(benchmark.spec).objective
    estimates = selectors.estimates(benchmark)
    concluded = {one["cell"]: one for one in benchmark.conclusion.get("cells", ())}
    order = {pk: place for place, pk in enumerate(concluded)}
    differing = _differing(cells)
    runs_of: dict[int, list[BenchmarkRun]] = defaultdict(list)
    for run in runs:
        runs_of[run.cell_id].append(run)
    lines = [
        _line(
            cell,
            {name: cell.differs_by.get(name, "") for name in differing},
            runs_of[cell.pk],
            concluded.get(cell.pk),
            estimates.get(cell.pk, ()),
        )
        for cell in sorted(cells, key=lambda cell: (order.get(cell.pk, len(order)), cell.position))
    ]
    shown = [line for line in lines if estimates.get(line.cell.pk)][:MOST_LINES]
    load = benchmark.scenario.load
    verdict = benchmark.conclusion.get("verdict")
    return BenchmarkOutcome(
        lines=lines,
        differing=differing,
        charts={
            **{name: _over_rate(name, shown, estimates, load) for name in ("ttft", "tpot")},
            "pareto": _pareto(shown, estimates),
        },
        verdict=str(VERDICTS.get(verdict, "")),
        best=next((line for line in lines if line.is_best), None),
        run_count=len(runs),
        ended_count=sum(run.ended_at is not None for run in runs),
        current=[
            (run, _progress(run, load)) for run in runs if not run.ended_at and run.state != RunState.WAITING
        ],
        unit=unit_of(objective),
        not_counted=[
            (run, [_violation_of(one, load) for one in run.violations] or [run.reason])
            for run in runs
            if run.violations or run.state in (RunState.INVALID, RunState.FAILED)
        ],
    )


def _violation_of(violation: Mapping[str, Any], load: LoadScenario) -> str:
    return f"{violation['rate']:g} {unit_of_rate(load)}: {violation_text(violation)}"  # untranslated


def _pareto(shown: Sequence[CellLine], estimates: Mapping[int, Sequence[CellEstimate]]) -> Chart:
    paints = {line.cell.pk: paint for line, (paint, _dash) in zip(shown, STYLES, strict=False)}
    return pareto_chart(estimates, {line.cell.pk: line.name for line in shown}, paints)


def unit_of(objective: BenchmarkObjective) -> str:
    if objective.kind == ObjectiveKind.LATENCY:
        return f"ms {objective.figure}"
    if objective.kind == ObjectiveKind.GOODPUT:
        return _("requests/s within targets")
    return _("million tokens within targets per unit of price")


def _progress(run: BenchmarkRun, load: LoadScenario) -> str:
    """Return what the load generator is at, in words; empty: it does not run."""
    stage, rate = run.progress.get("stage", ""), run.progress.get("rate")
    words = str(STAGES.get(stage, stage))
    return f"{words}, {rate:g} {unit_of_rate(load)}" if rate else words


def _differing(cells: Sequence[BenchmarkCell]) -> list[str]:
    """Return the names of what is not the same in all cells."""
    shown = [cell.differs_by for cell in cells]
    names = dict.fromkeys(name for one in shown for name in one)
    return [name for name in names if any(one.get(name) != shown[0].get(name) for one in shown)]


def _line(
    cell: BenchmarkCell,
    differing: Mapping[str, Any],
    runs: Sequence[BenchmarkRun],
    concluded: Mapping[str, Any] | None,
    estimates: Sequence[CellEstimate],
) -> CellLine:
    highest = max((one.rate for one in estimates), default=0)
    figures = {one.name: three_digits(one.value.value) for one in estimates if one.rate == highest}
    if concluded is None:
        return CellLine(cell, differing, runs, figures=figures)
    value, against = concluded["value"], concluded["against_best"]
    return CellLine(
        cell,
        differing,
        runs,
        value=three_digits(value["value"]),
        interval=_interval(value),
        against_best=f"{against['ratio'] - 1:+.0%}" if against else "",
        is_best=against is None,
        figures=figures,
    )


def _interval(value: Mapping[str, Any]) -> str:
    if value["low"] is None:
        return ""
    return f"{three_digits(value['low'])}–{three_digits(value['high'])}"


def _over_rate(
    name: str,
    lines: Sequence[CellLine],
    estimates: Mapping[int, Sequence[CellEstimate]],
    load: LoadScenario,
) -> Chart:
    """Chart the percentile that is known for all, with intervals where at most two lines are shown."""
    known = {one.name for line in lines for one in estimates[line.cell.pk]}
    figure = next((f"{name}_p{percent}" for percent in (95, 90, 50) if f"{name}_p{percent}" in known), name)
    rates = sorted({one.rate for line in lines for one in estimates[line.cell.pk] if one.name == figure})
    series = []
    for line, (paint, dash) in zip(lines, STYLES, strict=False):
        found = {one.rate: one.value for one in estimates[line.cell.pk] if one.name == figure}
        values = [found[rate].value / 1000 if rate in found else None for rate in rates]
        series.append(Series(line.name, values, paint=paint, dash=dash))
        if len(lines) <= 2:
            for label, side in ((_("low"), "low"), (_("high"), "high")):
                edge = [getattr(found[rate], side) if rate in found else None for rate in rates]
                if any(value is not None for value in edge):
                    scaled = [None if value is None else value / 1000 for value in edge]
                    series.append(Series(f"{line.name}, {label}", scaled, paint=paint, dash="dotted"))
    target = load.targets.ttft_ms if name == "ttft" else load.targets.tpot_ms
    measured = [one.value.value for line in lines for one in estimates[line.cell.pk] if one.name == figure]
    return Chart(
        title=figure.upper().replace("_P", " p"),
        moments=(),
        positions=rates,
        axis=unit_of_rate(load),
        series=series,
        unit="seconds",
        caption=_("over requests in flight") if load.is_closed_loop else _("over the rate, requests/s"),
        limits=[Limit(_("target"), target / 1000)] if target else [],
        minimum=0,
        # Intervals of few repeats reach far beyond what was measured.
        maximum=2 * max([*measured, target or 0], default=0) / 1000 or None,
    )
