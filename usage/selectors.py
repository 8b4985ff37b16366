"""Reports of usage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.db.models import QuerySet, Sum

from common import clock
from common.actor import Actor
from gpu_health.models import GpuPrices
from usage.models import Budget, UsageDay
from usage.states import UsageGroup

USUAL_DAYS = 30
COLUMNS = ("requests", "errors", "refused", "prompt_tokens", "completion_tokens", "gpu_hours", "cost")
_GROUPS: Mapping[str, tuple[str, ...]] = {
    UsageGroup.DAY: ("day",),
    UsageGroup.TEAM: ("team__name",),
    UsageGroup.SERVICE: ("service",),
    UsageGroup.VERSION: ("service", "version"),
    UsageGroup.KEY: ("key_id", "key"),
}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    since: date
    until: date
    """Both days belong to it."""
    by: Sequence[str] = (UsageGroup.SERVICE,)
    team: str = ""
    service: str = ""
    version: str = ""
    key: str = ""


def usual_span() -> tuple[date, date]:
    today = clock.now().date()
    return today - timedelta(days=USUAL_DAYS - 1), today


def usage_report(actor: Actor, query: UsageQuery) -> list[dict[str, Any]]:
    """Return sums for each group, those with the most requests first, days in their order."""
    rows: QuerySet[Any] = UsageDay.objects.all().for_actor(actor)
    rows = rows.filter(day__gte=query.since, day__lte=query.until)
    asked = {"team__name": query.team, "service": query.service, "version": query.version, "key": query.key}
    rows = rows.filter(**{name: value for name, value in asked.items() if value})
    names = [name for group in query.by for name in _GROUPS[group]]
    summed = [name if name != "gpu_hours" else "gpu_seconds" for name in COLUMNS]
    found = rows.order_by().values(*names).annotate(**{f"sum_{name}": Sum(name) for name in summed})
    order = ["day"] if "day" in names else []
    return [_row(one, names) for one in found.order_by(*order, "-sum_requests", *names)]


def _row(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    group = {name.removesuffix("__name"): found[name] for name in names if name != "key_id"}
    sums = {name: found[f"sum_{name}"] for name in COLUMNS if name != "gpu_hours"}
    gpu_hours = round(found["sum_gpu_seconds"] / 3600, 3)
    return {**group, **sums, "gpu_hours": gpu_hours, "cost": round(sums["cost"], 4)}


def currency() -> str:
    """Return the currency of costs; empty: no prices are set, and all costs are 0."""
    return GpuPrices.objects.filter(pk=GpuPrices.ONLY).values_list("currency", flat=True).first() or ""


def strained_budgets(state: str) -> QuerySet[Budget]:
    return Budget.objects.filter(state=state).select_related("team")
