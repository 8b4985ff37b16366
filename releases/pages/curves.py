"""The judge's evidence as a picture: for and against the candidate, in percent of what a decision needs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from common.pages.charts import Chart, Limit, Mark, Series
from releases.judge.curve import limits
from releases.judge.rules import IndicatorName
from releases.judge.verdict import JudgeVerdict
from releases.models import ReleaseStep
from releases.pages.analysis import IndicatorRow, live_key, state_of, title_of
from releases.plans.plan import PlanSpec
from releases.plans.step import kinds_with

ROOM = 1.28
"""Of the way: above the limit is room for the names of the marks."""
FLOOR = -0.03
AT_MOST_POINTS = 400


def indicators_of(
    plan: PlanSpec,
    points: Sequence[Mapping[str, Any]],
    verdict: JudgeVerdict | None,
    steps: Sequence[ReleaseStep],
    *,
    thresholds_ms: Mapping[IndicatorName, float],
) -> list[IndicatorRow]:
    """`points` as `EvidencePoint.curve` holds them, oldest first."""
    told = {progress.name: progress for progress in verdict.indicators} if verdict else {}
    shown = thinned(points, at_most=AT_MOST_POINTS)
    marks = [
        Mark(row.title.replace(" %", "%"), row.started_at)
        for row in steps
        if row.kind in kinds_with("changes_share") and row.started_at is not None
    ]
    indicators = []
    for name in plan.judge.judged:
        title = title_of(name, thresholds_ms.get(name))
        progress = told.get(name)
        chart = _chart(title, name, plan, shown, marks)
        indicators.append(IndicatorRow(name, title, chart, progress, state_of(progress, verdict)))
    return indicators


def thinned(points: Sequence[Mapping[str, Any]], *, at_most: int) -> Sequence[Mapping[str, Any]]:
    """Return at most so many of the points, evenly chosen, the last one always."""
    if len(points) <= at_most:
        return points
    step = (len(points) - 1) / (at_most - 1)
    return [points[round(index * step)] for index in range(at_most)]


def _chart(
    title: str,
    name: IndicatorName,
    plan: PlanSpec,
    points: Sequence[Mapping[str, Any]],
    marks: Sequence[Mark],
) -> Chart:
    limit = limits(plan.judge)[name]
    moments = [datetime.fromtimestamp(point["at"], UTC) for point in points]
    against = [_way(point["reject"].get(name), limit.reject) for point in points]
    series = [Series(pgettext("evidence", "against"), against, "bad", live=f"judge.{live_key(name)}.against")]
    if limit.accept is not None:
        in_favour = _for_good([_way(point["accept"].get(name), limit.accept) for point in points])
        series.insert(
            0, Series(pgettext("evidence", "for"), in_favour, "good", live=f"judge.{live_key(name)}.for")
        )
    return Chart(
        title=title,
        caption=_("Evidence (100 % decides)"),
        moments=moments,
        series=series,
        unit="way",
        limits=[Limit(_("decides"), 1.0, "ink")],
        marks=[mark for mark in marks if moments and moments[0] < mark.at <= moments[-1]],
        minimum=FLOOR,
        maximum=ROOM,
    )


def _way(evidence: float | None, limit: float) -> float:
    """Return how far the evidence (log10) is towards its limit, 0..1: evidence to the contrary is none."""
    return 0.0 if evidence is None else round(min(max(evidence / limit, 0.0), 1.0), 4)


def _for_good(values: Sequence[float]) -> list[float]:
    """Keep the line at its limit: what has passed once has passed, as the judge counts it."""
    has_passed = False
    found = []
    for value in values:
        has_passed = has_passed or value >= 1.0
        found.append(1.0 if has_passed else value)
    return found
