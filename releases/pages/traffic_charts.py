"""Rate, latency and errors of both sides over the last minutes; they grow while the page is open."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from common.pages.charts import Chart, Paint, Series, Unit
from releases.sampling import KEEP_SECONDS, Look
from releases.traffic import NOTHING, SideTraffic

PAINTS: Mapping[str, Paint] = {"stable": "stable", "candidate": "candidate"}


def traffic_charts(looks: Sequence[Look], deployments: Mapping[str, str]) -> list[tuple[str, Chart]]:
    """(id, chart). `deployments`: which one stands on which side."""
    return [
        ("rate", _chart("Requests", "rate", "rate", looks, deployments, lambda side: side.rate)),
        ("p95", _chart("Latency, P95", "p95", "seconds", looks, deployments, lambda side: side.p95)),
        (
            "errors",
            _chart("Errors", "errors", "percent", looks, deployments, lambda side: side.error_share),
        ),
    ]


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
