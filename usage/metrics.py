"""Prometheus metrics of usage."""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from usage.models import Budget
from usage.states import BudgetState


def budgets() -> Iterator[Metric]:
    """Return the budgets by one query."""
    rows = Budget.objects.order_by().values_list("team__name", "state").annotate(number=Count("pk"))
    found = {(team, state): number for team, state, number in rows}
    yield gauge(
        "usage_budgets",
        "Budgets of usage by team and state, of teams that have some.",
        ("team", "state"),
        [
            ((team, state), float(found.get((team, state), 0)))
            for team in sorted({team for team, _ in found})
            for state in BudgetState.values
        ],
    )
