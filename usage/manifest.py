"""The manifest of the app usage."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge
from common.pages.search import SearchDestination
from common.pages.shell import NavItem, Tab
from common.pages.subjects import Subject
from usage.alert_checks import ALERT_CHECKS
from usage.metrics import budgets
from usage.pages import BUDGET_PAGES
from usage.reconcilers import UsageMeterReconciler
from usage.states import BudgetState, UsageGroup, UsageMeasure

MANIFEST = AppManifest(
    reconcilers=(UsageMeterReconciler(),),
    subjects=(
        Subject("usage.usagemeter", _("Meter of usage"), "/usage/"),
        Subject("usage.budget", _("Budget"), "/usage/budgets/{pk}/", badges="budget"),
    ),
    choices=(
        ChoiceSet(BudgetState, badges="budget", schema="BudgetState"),
        ChoiceSet(UsageMeasure, schema="UsageMeasure"),
        ChoiceSet(UsageGroup, schema="UsageGroup"),
    ),
    badges={
        "budget": {
            "within": Badge(_("Within budget"), "good", "circle-check"),
            "near": Badge(_("Nearly spent"), "warn", "alert-triangle"),
            "spent": Badge(_("Spent"), "bad", "alert-triangle"),
        }
    },
    nav=(NavItem(name=_("Usage"), path="/usage/", icon="chart-bar", rank=37, follows_changes=True),),
    tabs=(
        Tab(under="/usage/", name=_("Usage"), path="/usage/", icon="chart-bar", rank=10),
        Tab(under="/usage/", name=_("Budgets"), path="/usage/budgets/", icon="wallet", rank=20),
    ),
    search=(BUDGET_PAGES.search,),
    destinations=(
        SearchDestination(title=_("Usage"), url="/usage/", icon="chart-bar"),
        *BUDGET_PAGES.destinations,
    ),
    nouns={"budgets": lambda count: ngettext("budget", "budgets", count)},
    metrics=(budgets,),
    alert_checks=ALERT_CHECKS,
)
