"""Pages of abilities: list, one of them, a form."""

from django import forms
from django.utils.translation import gettext_lazy

from accounts.resource_pages import NewTeamRowForm, ResourceColumn, ResourceVerb, TeamResource
from accounts.states import Right
from gateway.filters import AbilityFilter
from gateway.models import AbilityRoute
from gateway.services.abilities import create_ability, remove_ability
from gateway.states import AbilityState


class NewAbilityForm(NewTeamRowForm):
    ability = forms.CharField(
        max_length=64,
        required=False,
        label=gettext_lazy("Ability"),
        help_text=gettext_lazy("As workers register it. Empty: the same as the name."),
    )
    cluster = forms.CharField(
        max_length=63,
        required=False,
        label=gettext_lazy("Cluster"),
        help_text=gettext_lazy("Empty: one whose gateway is Envoy by files, else the first."),
    )
    field_order = ("name", "ability", "team", "cluster", "description")


PAGES = TeamResource(
    model=AbilityRoute,
    noun="abilities",
    title=gettext_lazy("Abilities"),
    new=gettext_lazy("New ability"),
    about=gettext_lazy("An ability is one address that workers of several services answer."),
    path="/abilities/",
    icon="route",
    rank=34,
    right=Right.SERVICES_WRITE,
    filters=AbilityFilter,
    form=NewAbilityForm,
    create=create_ability,
    columns=(
        ResourceColumn(gettext_lazy("Name"), "name"),
        ResourceColumn(gettext_lazy("State"), "state", badges="ability"),
        ResourceColumn(gettext_lazy("Ability"), "ability"),
        ResourceColumn(gettext_lazy("Team"), "team.name"),
        ResourceColumn(gettext_lazy("Services"), "services"),
        ResourceColumn(gettext_lazy("Workers"), "workers"),
        ResourceColumn(gettext_lazy("Slots"), "slots"),
        ResourceColumn(gettext_lazy("Problem"), "problem"),
    ),
    verbs=(
        ResourceVerb(
            "remove",
            gettext_lazy("Delete"),
            "trash",
            remove_ability,
            AbilityState.values,
            tone="bad",
            is_removal=True,
        ),
    ),
)
