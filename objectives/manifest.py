"""What service level objectives add to the whole."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from common.configuration import ConfigurationKind
from common.declared import AppManifest
from common.pages.search import SearchDestination
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from objectives.alert_checks import ALERT_CHECKS
from objectives.metrics import budgets
from objectives.reconcilers import CountObjectives
from objectives.selectors import objectives_of
from releases.pages.panels import ServicePanel, register_service_panel

MANIFEST = AppManifest(
    reconcilers=(CountObjectives(),),
    subjects=(
        Subject("objectives.serviceobjective", _("Objective"), "/objectives/{pk}/"),
        Subject("objectives.objectivecount", _("Count of objectives"), "/objectives/"),
    ),
    nav=(
        NavItem(
            name=_("Objectives"), path="/objectives/", icon="target-arrow", rank=33, follows_changes=True
        ),
    ),
    destinations=(
        SearchDestination(
            title=_("Objectives"), url="/objectives/", icon="target-arrow", words="slo error budget burn"
        ),
        SearchDestination(
            title=_("New objective"),
            url="/objectives/+new/",
            icon="target-arrow",
            right=Right.SERVICES_WRITE,
            is_command=True,
        ),
    ),
    nouns={"objectives": lambda count: ngettext("objective", "objectives", count)},
    metrics=(budgets,),
    alert_checks=ALERT_CHECKS,
    configuration=(
        ConfigurationKind(
            "objective", routes="objective", lookup="pk", found_in_list=True, takes_reason=False
        ),
    ),
    hooks=(partial(register_service_panel, ServicePanel("objectives/_service.html", objectives_of)),),
)
