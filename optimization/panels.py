"""What the pages of runs show: verdicts as lines with intervals, the family, and its Pareto front."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from common.actor import Actor
from models_registry.models import Version
from models_registry.panels import PanelPlace, VersionPanel
from optimization.documents import verdict_document
from optimization.family import FamilyMember, family_of
from optimization.items import is_binary, is_higher_better
from optimization.models import AccuracyCheck, OptimizationRun
from optimization.speed import MARGIN
from optimization.states import ENDED

METRICS: Mapping[str, Any] = {
    "perplexity": _("Perplexity"),
    "accuracy": _("Accuracy"),
    "similarity": _("Likeness to the parent's pictures"),
    "distance": _("Distance to the references (parent = 1)"),
}
FIGURES: Mapping[str, Any] = {
    "output_rate": _("Throughput"),
    "ttft_p50": _("TTFT p50"),
    "tpot_p50": _("TPOT p50"),
    "picture_rate": _("Pictures per second"),
}
STAGES: Mapping[str, Any] = {
    "loading": _("Loading the model"),
    "rounding": _("Rounding layers"),
    "calibrating": _("Calibrating"),
    "measuring": _("Measuring activations"),
    "recovering": _("Recovery training"),
    "running the scorer": _("Scorer judges the answers"),
    "drawing": _("Parent draws training pictures"),
    "distilling": _("Distilling"),
    "drawing pictures": _("Parent and child draw in turn"),
    "comparing pictures": _("Comparing pictures"),
    "verifying": _("Checking the output"),
    "scoring parent": _("Parent answers the test set"),
    "scoring child": _("Child answers the test set"),
    "environment": _("Making the environment"),
    "self-test": _("Testing the environment"),
}
WIDTH, HEIGHT, EDGE = 320, 180, 28
RUNS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class IntervalBar:
    """An interval and its limit on a line of 100 units; `limit` is where it must not reach."""

    low: float
    high: float
    value: float
    limit: float


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    name: str
    url: str
    x: float
    y: float
    is_best: bool
    has_passed: bool


def metric_name(metric: str) -> str:
    task, _colon, own = metric.rpartition(":")
    return f"{task}: {own}" if task else str(METRICS[own])


def verdict_lines(check: AccuracyCheck) -> list[dict[str, Any]]:
    """Return each metric with its bar; below 0 the child is worse."""
    lines = []
    for row in check.verdicts.all():
        told = verdict_document(row)
        told["name"] = metric_name(row.metric)
        told["bar"] = _bar(told["low"], told["high"], told["difference"], -told["margin"])
        told["is_share"] = is_binary(row.metric)
        lines.append(told)
    return lines


def speed_lines(row: OptimizationRun, compared_with: str) -> list[dict[str, Any]]:
    return [
        {
            **one,
            "name": FIGURES.get(one["name"], one["name"]),
            "bar": None if one["low"] is None else _bar(one["low"], one["high"], one["ratio"], 1 - MARGIN),
        }
        for one in row.speed
        if one.get("compared_with", "parent") == compared_with
    ]


def progress_text(row: OptimizationRun) -> str:
    stage = row.progress.get("stage", "")
    return str(STAGES.get(stage, stage))


def pareto(members: Sequence[FamilyMember]) -> list[ParetoPoint]:
    """Return accuracy over cost as places of a picture of `WIDTH` by `HEIGHT`; better is higher and left."""
    metric = next((one.metric for one in members if one.metric), "")
    shown = [
        (one, one.cost, one.value if is_higher_better(metric) else -one.value)
        for one in members
        if one.value is not None and one.cost is not None and one.metric == metric
    ]
    if len(shown) < 2:
        return []
    costs, goods = [cost for _one, cost, _good in shown], [good for _one, _cost, good in shown]
    return [
        ParetoPoint(
            one.version.name,
            f"/optimizations/{one.run.pk}/"
            if one.run
            else f"/models/{one.version.model.name}/{one.version.name}/",
            round(EDGE + _share(cost, costs) * (WIDTH - 3 * EDGE), 1),
            round(HEIGHT - EDGE - _share(good, goods) * (HEIGHT - 2 * EDGE), 1),
            one.is_best,
            one.has_passed,
        )
        for one, cost, good in shown
    ]


def version_panel(actor: Actor, version: Version) -> VersionPanel | None:
    """Show the family on the page of a version that belongs to one, by the run that was judged last."""
    rows = OptimizationRun.objects.for_actor(actor).filter(
        parent=version
    ) | OptimizationRun.objects.for_actor(actor).filter(child=version)
    runs = list(rows.select_related("parent__model", "child__model").order_by("-pk")[:RUNS_SHOWN])
    if not runs:
        return None
    return VersionPanel(PanelPlace.ASIDE, "optimization/_runs_of_version.html", {"runs": runs})


def family_context(actor: Actor, row: OptimizationRun) -> dict[str, Any]:
    members = family_of(actor, row.parent, test_sha256=row.test.get("sha256", ""))
    return {
        "members": members,
        "metric": next((metric_name(one.metric) for one in members if one.metric), _("Accuracy")),
        "pareto": pareto(members),
        "width": WIDTH,
        "height": HEIGHT,
        "is_open": row.state not in ENDED,
    }


def _bar(low: float, high: float, value: float, limit: float) -> IntervalBar:
    ends = (low, high, value, limit, 0.0 if limit <= 0 else 1.0)
    least, most = min(ends), max(ends)
    room = (most - least or 1.0) * 0.1
    least, most = least - room, most + room

    def place(one: float) -> float:
        return round((one - least) / (most - least) * 100, 2)

    return IntervalBar(place(low), place(high), place(value), place(limit))


def _share(value: float, values: Sequence[float]) -> float:
    least, most = min(values), max(values)
    return (value - least) / (most - least) if most > least else 0.5
