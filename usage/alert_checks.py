"""Budgets that are nearly spent, or spent."""

from collections.abc import Callable, Iterable

from django.utils.translation import gettext_lazy as _

from common.alert_checks import AlertCheck, AlertFinding, beyond
from usage.selectors import strained_budgets
from usage.states import BudgetState


def _in_state(state: str) -> Callable[[], Iterable[AlertFinding]]:
    def find() -> Iterable[AlertFinding]:
        for row in strained_budgets(state):
            labels = {"budget": row.name, "team": row.team.name, "measure": row.measure}
            if row.service:
                labels["service"] = row.service
            address = f"/usage/budgets/{row.pk}/"
            yield AlertFinding(
                labels, round(100 * row.used / row.amount), address=address, team_id=row.team_id
            )

    return find


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayBudgetNear",
        title=_("Budget nearly spent"),
        severity="warning",
        find=_in_state(BudgetState.NEAR),
        metric=beyond("usage_budgets", by=("team",), state="near"),
        note=_("The value is the percentage of this month's budget. Usage shows who used it."),
    ),
    AlertCheck(
        name="SlipwayBudgetSpent",
        title=_("Budget spent"),
        severity="critical",
        find=_in_state(BudgetState.SPENT),
        metric=beyond("usage_budgets", by=("team",), state="spent"),
        note=_(
            "The value is the percentage of this month's budget. Nothing is stopped: limit the keys of "
            "clients, or delete the budget and set a larger one."
        ),
    ),
)
