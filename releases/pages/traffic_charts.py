"""Rate, latency and errors of both sides over the last minutes; they grow while the page is open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from common.pages.charts import Chart, Paint, Series, Unit
from releases.sampling import KEEP_SECONDS, Look
from releases.traffic import NOTHING, SideTraffic

GAP_SECONDS = 5.0
ERRORS_TOP = 0.01
"""The picture of the errors ends at 1 % at the least."""

PAINTS: Mapping[str, Paint] = {"stable": "stable", "candidate": "candidate"}


def traffic_charts(looks: Sequence[Look], deployments: Mapping[str, str]) -> list[tuple[str, Chart]]:
    """(id, chart). `deployments`: which one stands on which side."""
    looks = broken(looks)
    errors = _chart("Errors", "errors", "percent", looks, deployments, lambda side: side.error_share)
    return [
        ("rate", _chart("Requests", "rate", "rate", looks, deployments, lambda side: side.rate)),
        ("p95", _chart("Latency, P95", "p95", "seconds", looks, deployments, lambda side: side.p95)),
        ("errors", replace(errors, top_at_least=ERRORS_TOP)),
    ]


def broken(looks: Sequence[Look]) -> list[Look]:
    """The looks, with an empty one in every gap: while nobody watched, nothing is known."""
    found: list[Look] = []
    for look in looks:
        if found and look.at - found[-1].at > GAP_SECONDS:
            found.append(Look(found[-1].at + 1, {}))
        found.append(look)
    return found


def _chart(
    title: str,
    name: str,
    unit: Unit,
    looks: Sequence[Look],
    deployments: Mapping[str, str],
    figure: Callable[[SideTraffic], float | None],
) -> Chart:
    return Chart(
        title=title,
        moments=[datetime.fromtimestamp(look.at, UTC) for look in looks],
        series=[
            Series(
                side,
                [figure(look.sides.get(deployment, NOTHING)) for look in looks],
                PAINTS[side],
                fill=side == "stable",
                live=f"{side}.{name}",
            )
            for side, deployment in deployments.items()
        ],
        unit=unit,
        minimum=0,
        window_seconds=KEEP_SECONDS,
    )
