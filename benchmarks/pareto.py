"""Price, or throughput where there is no price, against latency, and what no configuration beats in both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from django.utils.translation import gettext as _

from benchmarks.selectors import CellEstimate
from common.pages.charts import Chart, Paint, Series

LATENCIES = ("ttft_p95", "ttft_p90", "ttft_p50", "e2e_p95", "e2e_p50")
PRICE, THROUGHPUT = "price_per_million_tokens", "output_rate"


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    cell: int
    latency: float
    worth: float


def pareto_points(
    estimates: Mapping[int, Sequence[CellEstimate]],
) -> tuple[str, str, list[ParetoPoint]]:
    """Return which latency and which worth are compared, and a point for each configuration and rate.

    The latency is the first that is known wherever another one is, so that all points have the same.
    """
    known: dict[tuple[int, float], dict[str, float]] = {}
    for cell, some in estimates.items():
        for one in some:
            known.setdefault((cell, one.rate), {})[one.name] = one.value.value
    measured = known.values()
    latency = next((name for name in LATENCIES if measured and all(name in one for one in measured)), "")
    worth = PRICE if measured and all(PRICE in one for one in measured) else THROUGHPUT
    points = [
        ParetoPoint(cell, told[latency], told[worth])
        for (cell, _rate), told in known.items()
        if latency in told and worth in told
    ]
    return latency, worth, sorted(points, key=lambda one: (one.latency, one.worth))


def front(points: Sequence[ParetoPoint], *, lower_is_better: bool) -> list[float]:
    """Return the best worth of all points up to the latency of each; `points` ascend by latency."""
    return list(accumulate((one.worth for one in points), min if lower_is_better else max))


def pareto_chart(
    estimates: Mapping[int, Sequence[CellEstimate]], names: Mapping[int, str], paints: Mapping[int, Paint]
) -> Chart:
    """Chart the configurations that have names, each with its place among these beside its dots."""
    latency, worth, points = pareto_points({cell: estimates[cell] for cell in names if cell in estimates})
    best = dict(
        zip((one.latency for one in points), front(points, lower_is_better=worth == PRICE), strict=True)
    )
    positions = list(best)
    series = []
    for number, (cell, name) in enumerate(names.items(), 1):
        mine = {one.latency: one.worth for one in points if one.cell == cell}
        values = [mine.get(position) for position in positions]
        series.append(Series(f"{number} {name}", values, paint=paints[cell], tag=str(number)))
    if points:
        series.append(Series(_("Pareto front"), list(best.values()), dash="dashed", stepped=True))
    label = latency.upper().replace("_P", " p")
    title = _("Price per million tokens") if worth == PRICE else _("Output tokens/s")
    return Chart(
        title=_("%(worth)s against %(latency)s") % {"worth": title, "latency": label or "TTFT"},
        moments=(),
        positions=positions,
        axis=f"{label or 'TTFT'} (ms)",
        caption=f"{label or 'TTFT'}, ms",
        series=series,
        minimum=0,
    )
