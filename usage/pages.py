"""Pages of budgets: list, one of them, a form."""

from django import forms
from django.utils.translation import gettext_lazy

from accounts.resource_pages import NewTeamRowForm, ResourceColumn, ResourceVerb, TeamResource
from accounts.states import Right
from usage.filters import BudgetFilter
from usage.models import Budget
from usage.services import create_budget, delete_budget
from usage.states import BudgetState, UsageMeasure


class NewBudgetForm(NewTeamRowForm):
    service = forms.CharField(
        max_length=128,
        required=False,
        label=gettext_lazy("Service"),
        help_text=gettext_lazy("Empty: all services of the team."),
    )
    measure = forms.ChoiceField(label=gettext_lazy("Measure"), choices=UsageMeasure.choices)
    amount = forms.FloatField(
        label=gettext_lazy("Amount"), help_text=gettext_lazy("Of a calendar month, in UTC.")
    )
    warn_percent = forms.IntegerField(
        label=gettext_lazy("Warn at (%)"), min_value=1, max_value=100, initial=80
    )
    field_order = ("name", "team", "service", "measure", "amount", "warn_percent")


BUDGET_PAGES = TeamResource(
    model=Budget,
    noun="budgets",
    title=gettext_lazy("Budgets"),
    new=gettext_lazy("New budget"),
    about=gettext_lazy("A budget for a calendar month warns before and when it is spent. It stops nothing."),
    path="/usage/budgets/",
    icon="wallet",
    rank=37,
    right=Right.SERVICES_WRITE,
    filters=BudgetFilter,
    form=NewBudgetForm,
    create=create_budget,
    columns=(
        ResourceColumn(gettext_lazy("Name"), "name"),
        ResourceColumn(gettext_lazy("State"), "state", badges="budget"),
        ResourceColumn(gettext_lazy("Team"), "team.name"),
        ResourceColumn(gettext_lazy("Service"), "service"),
        ResourceColumn(gettext_lazy("Measure"), "measured"),
        ResourceColumn(gettext_lazy("Amount"), "amount"),
        ResourceColumn(gettext_lazy("Used"), "used_percent"),
    ),
    verbs=(
        ResourceVerb(
            "delete",
            gettext_lazy("Delete"),
            "trash",
            delete_budget,
            BudgetState.values,
            tone="bad",
            is_removal=True,
        ),
    ),
)
