"""The judge's evidence as a picture: per indicator one line towards each of its two limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from common.pages.charts import Chart, Limit, Mark, Series
from releases import plans
from releases.judge import IndicatorName, Verdict, limits
from releases.judge.progress import IndicatorProgress
from releases.models import ReleaseStep

TITLES: Mapping[IndicatorName, str] = {"errors": "Errors (5xx)", "slow": "Slow answers"}
ROOM = 1.12
"""Of the way: the limits stand a little inside the picture."""
AT_MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Indicator:
    """One indicator as the page shows it."""

    name: IndicatorName
    title: str
    chart: Chart
    progress: IndicatorProgress | None
    """None before the first look."""

    @property
    def chart_id(self) -> str:
        return f"evidence-{self.name}"


def indicators_of(
    plan: plans.Plan,
    points: Sequence[Mapping[str, Any]],
    verdict: Verdict | None,
    steps: Sequence[ReleaseStep],
    *,
    slow_threshold_ms: float | None,
) -> list[Indicator]:
    """`points` as `EvidencePoint.curve` holds them, oldest first."""
    told = {progress.name: progress for progress in verdict.indicators} if verdict else {}
    shown = thinned(points, at_most=AT_MOST_POINTS)
    marks = [
        Mark(row.title.replace(" %", "%"), row.started_at)
        for row in steps
        if row.kind == "weight" and row.started_at is not None
    ]
    indicators = []
    for name in plan.judge.indicators:
        title = TITLES[name]
        if name == "slow" and slow_threshold_ms is not None:
            title = f"Slower than {slow_threshold_ms:g} ms"
        chart = _chart(title, name, plan, shown, marks)
        indicators.append(Indicator(name, title, chart, told.get(name)))
    return indicators


def thinned(points: Sequence[Mapping[str, Any]], *, at_most: int) -> Sequence[Mapping[str, Any]]:
    """At most so many of the points, evenly chosen, the last one always."""
    if len(points) <= at_most:
        return points
    step = (len(points) - 1) / (at_most - 1)
    return [points[round(index * step)] for index in range(at_most)]


def _chart(
    title: str,
    name: IndicatorName,
    plan: plans.Plan,
    points: Sequence[Mapping[str, Any]],
    marks: Sequence[Mark],
) -> Chart:
    limit = limits(plan.judge)[name]
    moments = [datetime.fromtimestamp(point["at"], UTC) for point in points]
    against = Series(
        "against",
        [-_way(point["reject"].get(name), limit.reject) for point in points],
        "bad",
        fill=True,
        live=f"judge.{name}.against",
    )
    lines = [Limit("roll back", -1.0, "bad")]
    series = [against]
    if limit.accept is not None:
        in_favour = [_way(point["accept"].get(name), limit.accept) for point in points]
        series.insert(0, Series("in favour", in_favour, "good", fill=True, live=f"judge.{name}.for"))
        lines.insert(0, Limit("certified", 1.0, "good"))
    return Chart(
        title=title,
        moments=moments,
        series=series,
        unit="way",
        limits=lines,
        marks=[mark for mark in marks if moments and moments[0] < mark.at <= moments[-1]],
        minimum=-ROOM,
        maximum=ROOM if limit.accept is not None else 0.1,
    )


def _way(evidence: float | None, limit: float) -> float:
    """How far the evidence (log10) is towards its limit, 0..1: evidence to the contrary is none."""
    return 0.0 if evidence is None else round(min(max(evidence / limit, 0.0), 1.0), 4)
