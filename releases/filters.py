"""What narrows the lists of releases and of services: over REST and on the pages."""

from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.actors import of_request
from accounts.filters import team
from clusters.filters import cluster
from common import filters
from common.filters import ListFilter
from releases.models import Service
from releases.states import IN_MOTION, ReleaseState

IN_MOTION_CHOICE = "in_motion"


def _visible_services(request: Any) -> QuerySet[Service]:
    rows = Service.objects.order_by("name")
    return rows.for_actor(of_request(request)) if request else rows.none()


class DelegationFilter(ListFilter):
    team = team("Team.", "team")


class EnvironmentFilter(ListFilter):
    team = team("Owner.", "team")


class ReleaseFilter(ListFilter):
    further = ("plan",)

    q = filters.search(
        "Words that must occur in service, version, requester, reason or outcome.",
        _("Version, reason, person"),
        ("service__name", "version__name", "version__model__name", "requester", "reason", "outcome"),
    )
    state = filters.choice(
        _("State"),
        "State; `in_motion`: any that has not ended.",
        [(IN_MOTION_CHOICE, _("Active")), *ReleaseState.choices],
        lambda state: Q(state__in=IN_MOTION if state == IN_MOTION_CHOICE else [state]),
    )
    service = filters.named(
        _("Service"),
        "Service.",
        _visible_services,
        "service",
        unknown=_("There is no such service, or you may not see it."),
    )
    team = team("Owner.", "team")
    plan = filters.text(_("Plan"), "Name of the plan.", "plan_name")


class ServiceFilter(ListFilter):
    further = ("model",)

    q = filters.search(
        "Words that must occur in name, description, model or stable version.",
        _("Name, model"),
        ("name", "description", "model__name", "stable_version__name"),
    )
    cluster = cluster("cluster")
    team = team("Owner.", "team")
    model = filters.text(_("Model"), "Name of the model.", "model__name")
