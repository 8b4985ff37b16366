"""By what the lists of releases and services are filtered."""

from collections.abc import Callable
from typing import Any

import django_filters
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from clusters.models import Cluster
from common.languages import Text
from common.pages.forms import SearchInput
from common.words import occurs_in
from releases.models import Release, Service
from releases.states import IN_MOTION, ReleaseState

IN_MOTION_CHOICE = "in_motion"


def _visible_teams(request: Any) -> QuerySet[Team]:
    return teams_where(of_request(request), Right.READ).order_by("name")


def _visible_services(request: Any) -> QuerySet[Service]:
    return Service.objects.for_actor(of_request(request)).order_by("name")


def _visible_clusters(request: Any) -> QuerySet[Cluster]:
    return Cluster.objects.for_actor(of_request(request)).order_by("name")


def _by_name(
    field: str, label: Text, choices: Callable[[Any], QuerySet[Any]]
) -> django_filters.ModelChoiceFilter:
    """One of the rows that the reader may see, by its name; empty: any."""
    return django_filters.ModelChoiceFilter(
        field_name=field, to_field_name="name", queryset=choices, label=label, empty_label=_("Any")
    )


class ReleaseFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning",
        label=_("Search"),
        widget=SearchInput(_("Version, reason, person")),
    )
    state = django_filters.ChoiceFilter(
        method="in_state",
        label=_("State"),
        empty_label=_("Any"),
        choices=[(IN_MOTION_CHOICE, _("In motion")), *ReleaseState.choices],
    )
    service = _by_name("service", _("Service"), _visible_services)
    team = _by_name("team", _("Team"), _visible_teams)

    class Meta:
        model = Release
        fields: tuple[str, ...] = ()

    def mentioning(self, rows: QuerySet[Release], _name: str, text: str) -> QuerySet[Release]:
        names = ("service__name", "version__name", "version__model__name", "requester")
        return rows.filter(occurs_in((*names, "reason", "outcome"), text))

    def in_state(self, rows: QuerySet[Release], _name: str, state: str) -> QuerySet[Release]:
        return rows.filter(state__in=IN_MOTION if state == IN_MOTION_CHOICE else [state])


class ServiceFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning", label=_("Search"), widget=SearchInput(_("Name, model"))
    )
    cluster = _by_name("cluster", _("Cluster"), _visible_clusters)
    team = _by_name("team", _("Team"), _visible_teams)

    class Meta:
        model = Service
        fields: tuple[str, ...] = ()

    def mentioning(self, rows: QuerySet[Service], _name: str, text: str) -> QuerySet[Service]:
        columns = ("name", "description", "model__name", "stable_version__name")
        return rows.filter(occurs_in(columns, text))
