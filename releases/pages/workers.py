"""What the workers of a team's own code count, by route, by method of a model and over time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from common.pages.charts import Chart, Series, Unit
from gateway.latency import quantile_ms
from gateway.worker_figures import MethodCount, RouteTraffic, WorkerInterval
from releases.pages.traffic_charts import NAMES, PAINTS

NOTHING = RouteTraffic(0, 0, ())


@dataclass(frozen=True, slots=True)
class RouteRow:
    """Figures of one route of a version over the whole range."""

    side: str
    route: str
    per_minute: float
    requests: int
    error_share: float | None
    p50: float | None
    p95: float | None
    """Seconds."""


@dataclass(frozen=True, slots=True)
class MethodRow:
    side: str
    method: str
    count: MethodCount


@dataclass(frozen=True, slots=True)
class WorkersPanel:
    routes: Sequence[RouteRow]
    methods: Sequence[MethodRow]
    charts: Sequence[tuple[str, Chart]]
    slots: int
    waiting: int
    """Requests for a slot, at the last reading."""


def workers_panel(history: Mapping[str, Sequence[WorkerInterval]], sides: Mapping[str, str]) -> WorkersPanel:
    latest = [history[name][-1] for name in sides.values() if history.get(name)]
    return WorkersPanel(
        route_rows(history, sides),
        method_rows(history, sides),
        worker_charts(history, sides),
        sum(one.slots for one in latest),
        sum(one.queue_depth for one in latest),
    )


def route_rows(history: Mapping[str, Sequence[WorkerInterval]], sides: Mapping[str, str]) -> list[RouteRow]:
    """`sides`: deployments by their name."""
    found = []
    for side, deployment in sides.items():
        intervals = history.get(deployment, ())
        minutes = sum((one.at - one.began_at).total_seconds() for one in intervals) / 60
        for route in sorted({route for one in intervals for route in one.routes}):
            whole = sum((one.routes.get(route, NOTHING) for one in intervals), NOTHING)
            if not whole.requests:
                continue
            p50, p95 = (quantile_ms(whole.latency_ms, share) for share in (0.5, 0.95))
            found.append(
                RouteRow(
                    _(NAMES[side]),
                    route,
                    whole.requests / minutes,
                    whole.requests,
                    whole.errors / whole.requests,
                    None if p50 is None else p50 / 1000,
                    None if p95 is None else p95 / 1000,
                )
            )
    return sorted(found, key=lambda row: row.route)


def method_rows(history: Mapping[str, Sequence[WorkerInterval]], sides: Mapping[str, str]) -> list[MethodRow]:
    none = MethodCount(0, 0, 0.0, 0.0)
    found = []
    for side, deployment in sides.items():
        intervals = history.get(deployment, ())
        for method in sorted({method for one in intervals for method in one.methods}):
            count = sum((one.methods.get(method, none) for one in intervals), none)
            if count.calls:
                found.append(MethodRow(_(NAMES[side]), method, count))
    return sorted(found, key=lambda row: row.method)


def worker_charts(
    history: Mapping[str, Sequence[WorkerInterval]], sides: Mapping[str, str]
) -> list[tuple[str, Chart]]:
    """(id, chart), a line for each version."""
    moments = sorted({one.at for intervals in history.values() for one in intervals})
    by_moment = {name: {one.at: one for one in intervals} for name, intervals in history.items()}

    def chart(
        name: str, title: str, unit: Unit, figure: Callable[[WorkerInterval], float | None]
    ) -> tuple[str, Chart]:
        return name, Chart(
            title=title,
            moments=moments,
            series=[
                Series(
                    _(NAMES[side]),
                    [
                        figure(known[at]) if at in (known := by_moment.get(deployment, {})) else None
                        for at in moments
                    ],
                    *PAINTS[side],
                    fill=side == "stable",
                )
                for side, deployment in sides.items()
            ],
            unit=unit,
            minimum=0,
        )

    return [
        chart("workers-busy", _("Busy, share of the slots"), "percent", lambda one: one.busy),
        chart("workers-queue", _("Wait for a batch"), "seconds", lambda one: one.work.mean_queue_seconds),
        chart("workers-batch", _("Batch size"), "plain", lambda one: one.work.batch_size),
        chart("workers-model", _("Model time of a batch"), "seconds", lambda one: one.work.mean_seconds),
    ]
