"""Rate, latency and errors of each version: the hours before the page opened, joined to the live values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.pages.charts import Chart, Dash, Paint, Series, Unit
from gateway.history import TrafficInterval
from releases.sampling import TrafficSample
from releases.traffic import NOTHING, SideTraffic, side_of

JOIN_SECONDS = 95.0
"""Counts are kept each minute, and may be late: what lies further apart than this, nobody counted between."""
ERRORS_TOP = 0.01
"""The picture of the errors ends at 1 % at the least."""

PAINTS: Mapping[str, tuple[Paint, Dash]] = {
    "stable": ("stable", "solid"),
    "candidate": ("candidate", "dashed"),
}
EARLIER: Sequence[tuple[Paint, Dash]] = (("earlier-1", "dotted"), ("earlier-2", "dash-dot"))
"""Of versions that served before."""
NAMES = {"stable": gettext_noop("stable"), "candidate": gettext_noop("candidate")}


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A stretch of the past that charts show, and how finely."""

    name: str
    length: timedelta
    step: timedelta

    @property
    def step_seconds(self) -> int:
        return int(self.step.total_seconds())

    @property
    def is_fine(self) -> bool:
        return self.step <= timedelta(minutes=1)


SPANS = (
    ChartRange("1h", timedelta(hours=1), timedelta(minutes=1)),
    ChartRange("6h", timedelta(hours=6), timedelta(minutes=5)),
    ChartRange("24h", timedelta(hours=24), timedelta(minutes=15)),
    ChartRange("7d", timedelta(days=7), timedelta(hours=1)),
    ChartRange("30d", timedelta(days=30), timedelta(hours=6)),
)


def span_named(name: str) -> ChartRange:
    """The shortest for a name that there is not."""
    return next((span for span in SPANS if span.name == name), SPANS[0])


def span_over(length: timedelta) -> ChartRange:
    """The finest that shows so much; of more than 30 days the last 30 are kept."""
    return next((span for span in SPANS if length <= span.length), SPANS[-1])


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A point in time of the charts."""

    at: float
    reaches_back: float
    """Seconds: a moment before that is not its neighbour, and the line between them breaks."""
    sides: Mapping[str, SideTraffic]


def moments_of(history: Sequence[TrafficInterval], looks: Sequence[TrafficSample]) -> list[ChartPoint]:
    """Both in order; where a page looked, its finer values stand instead of the kept ones. Gaps stay gaps."""
    found = [ChartPoint(look.at, JOIN_SECONDS, look.sides) for look in looks]
    looked = [look.at for look in looks]
    for stretch in history:
        ends = stretch.at.timestamp()
        begins = ends - stretch.seconds
        if any(begins < at <= ends for at in looked):
            continue
        if stretch.targets is None:
            found.append(ChartPoint(ends, 0.0, {}))
        else:
            sides = {name: side_of(figures) for name, figures in stretch.targets.items()}
            found.append(ChartPoint(ends, max(JOIN_SECONDS, 1.5 * stretch.seconds), sides))
    found.sort(key=lambda moment: moment.at)
    return _broken(found)


def _broken(moments: Sequence[ChartPoint]) -> list[ChartPoint]:
    """Put an empty moment in every gap: while nobody counted, nothing is known."""
    found: list[ChartPoint] = []
    for moment in moments:
        if found and moment.at - found[-1].at > moment.reaches_back:
            found.append(ChartPoint(found[-1].at + 1, 0.0, {}))
        found.append(moment)
    return found


def traffic_charts(
    moments: Sequence[ChartPoint],
    deployments: Mapping[str, str],
    *,
    span: ChartRange,
    since: datetime | None = None,
    until: datetime | None = None,
    keeps: timedelta | None = None,
) -> list[tuple[str, Chart]]:
    """(id, chart). `deployments`: by the name of their line; `stable` and `candidate` grow live.

    `since`, `until`: what they cover even where nothing was counted. `keeps`: how much of the past stays
    while they grow; None: all of it.
    """

    others = [line for line in deployments if line not in PAINTS]
    looks_of = {**PAINTS, **{line: EARLIER[at % len(EARLIER)] for at, line in enumerate(others)}}

    def chart(
        title: str, name: str, unit: Unit, figure: Callable[[SideTraffic], float | None]
    ) -> tuple[str, Chart]:
        return name, Chart(
            title=title,
            moments=[datetime.fromtimestamp(moment.at, UTC) for moment in moments],
            series=[
                Series(
                    _(NAMES[line]) if line in NAMES else line,
                    [figure(moment.sides.get(deployment, NOTHING)) for moment in moments],
                    *looks_of[line],
                    fill=line == "stable",
                    live=f"{line}.{name}" if line in PAINTS else "",
                )
                for line, deployment in deployments.items()
            ],
            unit=unit,
            minimum=0,
            top_at_least=ERRORS_TOP if name == "errors" else None,
            since=since,
            until=until,
            window_seconds=int(keeps.total_seconds()) if keeps else 0,
            step_seconds=0 if span.is_fine else span.step_seconds,
            join_seconds=JOIN_SECONDS if span.is_fine else 2 * span.step_seconds,
        )

    return [
        chart(_("Requests per second"), "rate", "rate", lambda side: side.rate),
        chart(_("Latency p95"), "p95", "seconds", lambda side: side.p95),
        chart(_("5xx, share of requests"), "errors", "percent", lambda side: side.error_share),
    ]
