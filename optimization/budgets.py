"""Budgets of runs that were ordered together: they take turns, and one that would not fit is not begun."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from benchmarks.models import BenchmarkRun
from benchmarks.selectors import gpu_hours_of, price_per_hour
from clusters.models import Cluster
from common import clock
from optimization.models import OptimizationRun
from optimization.states import ENDED


@dataclass(frozen=True, slots=True)
class Spending:
    """Hours from the beginning of runs to their end, and the price of their GPUs."""

    hours: float = 0.0
    cost: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(self.hours + other.hours, self.cost + other.cost)

    def as_json(self) -> dict[str, float]:
        return {"hours": round(self.hours, 4), "cost": round(self.cost, 4)}


def batch_of(row: OptimizationRun) -> QuerySet[OptimizationRun]:
    """Return the runs that were ordered together with this one, and itself."""
    rows = OptimizationRun.objects.filter(team=row.team_id, batch=row.batch).exclude(batch="")
    return rows.order_by("pk")


def spent(row: OptimizationRun, now: datetime) -> Spending:
    """Return the spending of one run so far."""
    if row.began_at is None:
        return Spending()
    runs = BenchmarkRun.objects.filter(benchmark=row.benchmark_id) if row.benchmark_id else None
    gpu_hours = row.gpu_seconds / 3600 + (gpu_hours_of(runs, now) if runs is not None else 0.0)
    cluster = Cluster.objects.filter(name=row.benchmark_order["cluster"]).first()
    price = price_per_hour(cluster, 1) if cluster and gpu_hours else None
    return Spending(((row.ended_at or now) - row.began_at).total_seconds() / 3600, (price or 0.0) * gpu_hours)


def spent_of_batch(row: OptimizationRun, now: datetime) -> Spending:
    return sum((spent(one, now) for one in batch_of(row)), Spending())


def turn_of(row: OptimizationRun) -> str:
    """Return the name of the run whose end comes first; empty: it is the row's turn."""
    if not row.budget or row.began_at is not None:
        return ""
    first = batch_of(row).filter(pk__lt=row.pk).exclude(state__in=ENDED).first()
    return first.name if first is not None else ""


def budget_refusal(row: OptimizationRun, now: datetime) -> str:
    """Return why the budget does not allow the run to begin; empty: it does."""
    if not row.budget or row.began_at is not None:
        return ""
    used, needed = spent_of_batch(row, now).as_json(), row.budget["estimate"]
    for kind, said in (
        ("hours", _("Budget: %(used)s of %(most)s h are used; this would take about %(needed)s h.")),
        ("cost", _("Budget: %(used)s of %(most)s are spent; this would cost about %(needed)s.")),
    ):
        most = row.budget.get(kind)
        if most is not None and used[kind] + (needed[kind] or 0.0) > most:
            return said % {
                "used": f"{used[kind]:.2f}", "most": f"{most:g}", "needed": f"{needed[kind] or 0.0:.2f}"
            }  # fmt: skip
    return ""


def batch_document(row: OptimizationRun) -> dict[str, Any] | None:
    """Return the runs that were ordered together, and their budget; None: it was ordered alone."""
    if not row.batch:
        return None
    now = clock.now()
    runs = [
        {
            "id": one.pk,
            "name": one.name,
            "recipe": one.recipe,
            "state": one.state,
            **spent(one, now).as_json(),
        }
        for one in batch_of(row)
    ]
    limits: Mapping[str, Any] = {name: row.budget.get(name) for name in ("hours", "cost")}
    return {
        "name": row.batch,
        "budget": limits if row.budget else None,
        "used": spent_of_batch(row, now).as_json(),
        "runs": runs,
    }
