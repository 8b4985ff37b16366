"""Checks of error budgets: Google's two pairs of windows, and a budget that is used up."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from common import clock
from common.alert_checks import AlertCheck, AlertFinding, MetricCondition
from objectives.budget import FAST, LEAST_BAD, SLOW, BurnWindows, burns
from objectives.models import ServiceObjective

SILENT_AFTER = timedelta(minutes=10)


def _rows() -> Iterator[ServiceObjective]:
    """Yield the objectives that are counted at the moment."""
    rows = ServiceObjective.objects.filter(counted_until__gt=clock.now() - SILENT_AFTER)
    yield from rows.select_related("service").iterator(chunk_size=100)


def _about(row: ServiceObjective, value: float) -> AlertFinding:
    labels = {"service": row.service.name, "objective": row.name}
    return AlertFinding(labels, round(value, 2), team_id=row.team_id)


def _burning(windows: BurnWindows) -> Callable[[], Iterator[AlertFinding]]:
    def find() -> Iterator[AlertFinding]:
        for row in _rows():
            rate = burns(row.minute_counts, windows, target_percent=row.target_percent, now=clock.now())
            if rate is not None:
                yield _about(row, rate)

    return find


def _burn(windows: BurnWindows) -> MetricCondition:
    def largest(name: str, minutes: int) -> str:
        return f'max by (service, objective) (slipway_objective_{name}{{window="{minutes}m"}})'

    conditions = (
        f"{largest('burn_rate', windows.long_minutes)} > {windows.rate:g}",
        f"{largest('burn_rate', windows.short_minutes)} > {windows.rate:g}",
        f"{largest('failures', windows.long_minutes)} >= {LEAST_BAD}",
    )
    return MetricCondition(" and ".join(conditions), by=("service", "objective"))


def _spent() -> Iterator[AlertFinding]:
    for row in _rows():
        if row.budget.total and row.budget.remaining <= 0:
            yield _about(row, row.budget.remaining)


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayErrorBudgetBurnsFast",
        title=_("Error budget burns fast"),
        severity="critical",
        find=_burning(FAST),
        metric=_burn(FAST),
        note=_("At this rate the budget of 30 days lasts two days: 14.4 times too fast in 1 h and in 5 min."),
    ),
    AlertCheck(
        name="SlipwayErrorBudgetBurnsSlowly",
        title=_("Error budget burns"),
        severity="warning",
        find=_burning(SLOW),
        metric=_burn(SLOW),
        note=_("At this rate the budget of 30 days lasts five days: 6 times too fast in 6 h and in 30 min."),
    ),
    AlertCheck(
        name="SlipwayErrorBudgetSpent",
        title=_("Error budget used up"),
        severity="warning",
        find=_spent,
        metric=MetricCondition(
            "max by (service, objective) (slipway_objective_budget_remaining_ratio) <= 0",
            by=("service", "objective"),
        ),
        note=_("The objective is missed in its window: release what makes it better, and nothing else."),
    ),
)
