"""The verdicts of a run: accuracy and speed of the made version beside its parent's."""

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime

from django.utils.translation import gettext as _

from benchmarks import selectors as benchmarks
from benchmarks.models import Benchmark, BenchmarkRun
from benchmarks.states import RunState
from common.errors import SlipwayError
from images.selectors import works_on
from images.services import note_trial
from images.states import TrialOutcome
from model_store.backends.base import Ingested
from models_registry.services.evaluations import FigureInput, evaluate_version
from optimization.accuracy import AccuracyOutcome, margin_percent
from optimization.items import is_higher_better
from optimization.models import AccuracyCheck, AccuracyVerdict, OptimizationRun
from optimization.planning import ACTOR, BATCHING, CONTINUOUS, STATIC
from optimization.speed import SpeedRatio, judge_speed, ratios_of
from optimization.states import OptimizationState


def accuracy_gate(outcome: AccuracyOutcome) -> tuple[OptimizationState, str]:
    if outcome.verdict == "passed":
        return OptimizationState.BENCHMARKING, ""
    of = {name: one for name, one in outcome.results.items() if one.estimate.verdict == outcome.verdict}
    name, found = min(of.items(), key=lambda one: one[1].estimate.high)
    figures = {
        "metric": name,
        "parent": _shown(name, found.parent),
        "child": _shown(name, found.child),
        "margin": f"{margin_percent(name, found.estimate.margin):.3g}",
    }
    if outcome.verdict == "failed":
        said = _("Accuracy: %(metric)s %(child)s (parent %(parent)s) is worse by more than %(margin)s %%.")
        return OptimizationState.REJECTED, said % figures
    if (needed := found.estimate.needed_items) is None:
        said = _(
            "Accuracy: %(metric)s %(child)s (parent %(parent)s) is too near the margin of %(margin)s %%."
        )
        return OptimizationState.NEEDS_ITEMS, said % figures
    said = _("Accuracy: %(items)s items cannot tell within %(margin)s %%; about %(needed)s would.")
    figures |= {"items": f"{found.estimate.items:,}", "needed": f"{needed:,}"}
    return OptimizationState.NEEDS_ITEMS, said % figures


def _shown(metric: str, value: float) -> str:
    return f"{value:.1%}" if is_higher_better(metric) else f"{value:.3g}"


def keep_check(row: OptimizationRun, outcome: AccuracyOutcome, held: Ingested, now: datetime) -> None:
    check = AccuracyCheck.objects.create(
        run=row, items=outcome.items, sha256=held.sha256, size=held.size, worst=outcome.worst, created_at=now
    )
    for name, one in outcome.results.items():
        told = asdict(one.estimate)
        AccuracyVerdict.objects.create(
            check_of=check,
            metric=name,
            parent_value=one.parent,
            child_value=one.child,
            result=told.pop("verdict"),
            **told,
        )
    if row.child is None:
        return
    figures = [
        FigureInput(
            name=name,
            value=one.child,
            dataset=row.test["label"],
            unit="",
            is_higher_better=is_higher_better(name),
        )
        for name, one in outcome.results.items()
    ]
    with suppress(SlipwayError):
        evaluate_version(actor=ACTOR, version=row.child, figures=figures, reason=str(row))


def benchmark_name(row: OptimizationRun) -> str:
    return f"optimization-{row.pk}"


def benchmark_of(row: OptimizationRun) -> Benchmark | None:
    return Benchmark.objects.filter(team=row.team, name=benchmark_name(row), created_by=ACTOR.name).first()


def valid_runs(row: OptimizationRun, benchmark: Benchmark | None) -> list[BenchmarkRun]:
    """Return the runs in which the made version was validly measured."""
    rows = BenchmarkRun.objects.filter(
        benchmark=benchmark, state=RunState.VALID, cell__version=row.child_id
    ).select_related("cell__image", "cell__version__model")
    return list(rows) if benchmark is not None else []


def note_trials(row: OptimizationRun, benchmark: Benchmark) -> None:
    """Note in the catalogue that images ran the made version on the GPUs where it was measured."""
    for run in valid_runs(row, benchmark):
        gpu, _comma, driver = str(run.environment.get("gpu", "")).partition(", driver ")
        version, image = run.cell.version, run.cell.image
        about = {"gpu": gpu, "architecture": version.architecture}
        if not gpu or image is None or works_on(image, **about):
            continue
        words = " ".join(filter(None, (str(version), version.quantization)))
        with suppress(SlipwayError):
            note_trial(
                actor=ACTOR, image=image, outcome=TrialOutcome.WORKS, driver=driver, words=words, **about
            )


def measured_on(row: OptimizationRun) -> list[str]:
    """Return the GPUs, or machines, on which the made version served a load, each with its engine."""
    found = (
        (run.environment.get("gpu") or ", ".join(run.environment.get("machines", ())), run.environment)
        for run in valid_runs(row, row.benchmark)
    )
    return sorted({f"{place}: {environment.get('engine', '')}".strip(": ") for place, environment in found})


def speed_ratios(row: OptimizationRun, benchmark: Benchmark) -> list[SpeedRatio]:
    """Return the child's figures beside its parent's, and beside its own with static batching if that was
    measured."""
    cells = {
        (cell.version_id, cell.parameters.get(BATCHING, CONTINUOUS)): cell for cell in benchmark.cells.all()
    }
    child, parent = cells.get((row.child_id, CONTINUOUS)), cells.get((row.parent_id, CONTINUOUS))
    if child is None or parent is None:
        return []
    found = ratios_of(benchmarks.compared(child, parent))
    if static := cells.get((row.child_id, STATIC)):
        found += ratios_of(benchmarks.compared(child, static), "static")
    return found


def speed_gate(ratios: list[SpeedRatio], gain: float) -> tuple[OptimizationState, str]:
    found = judge_speed(ratios, gain=gain)
    if found.is_passed:
        return OptimizationState.PASSED, ""
    if found.missing:
        return OptimizationState.FAILED, _("The benchmark has too few valid runs for a verdict.")
    if (worse := found.worse) is not None:
        said = _("Benchmark: %(figure)s has a speedup of %(ratio)s at rate %(rate)s: it is worse.")
        figures = {"figure": worse.name, "ratio": f"{worse.ratio:.2f}", "rate": f"{worse.rate:g}"}
        return OptimizationState.REJECTED, said % figures
    best = found.best.low if found.best and found.best.low else 0.0
    said = _("Benchmark: a speedup of %(gain)s was required; at least %(found)s is shown.")
    return OptimizationState.REJECTED, said % {"gain": f"{gain:g}", "found": f"{best:.2f}"}
