"""Prometheus metrics of error budgets."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from objectives.models import ServiceObjective


def budgets() -> Iterator[Metric]:
    """Return the budgets by one query."""
    rows = [(row, row.budget) for row in ServiceObjective.objects.select_related("service")]
    yield gauge(
        "objective_budget_remaining_ratio",
        "Share of the error budget that is left in the objective's window; below 0: overspent.",
        ("service", "objective"),
        [((row.service.name, row.name), budget.remaining) for row, budget in rows if budget.total],
    )
    yield gauge(
        "objective_burn_rate",
        "Times as fast as the objective allows the budget is used, by window.",
        ("service", "objective", "window"),
        [
            ((row.service.name, row.name, f"{minutes}m"), rate)
            for row, budget in rows
            for minutes, rate in budget.burn.items()
            if rate is not None
        ],
    )
    yield gauge(
        "objective_failures",
        "Requests that failed the objective, by window.",
        ("service", "objective", "window"),
        [
            ((row.service.name, row.name, f"{minutes}m"), float(failures))
            for row, budget in rows
            for minutes, failures in budget.failures.items()
        ],
    )
