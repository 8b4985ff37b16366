"""What people fill in about models."""

from typing import Any

import django_filters
from django import forms
from django.db.models import QuerySet

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.actor import Actor
from common.pages.forms import SearchInput
from models_registry import selectors
from models_registry.facts import WEIGHT_FORMATS
from models_registry.models import Model, Version
from models_registry.services.catalogue import MAX_DESCRIPTION, MAX_TASK
from models_registry.states import VersionState

TASKS = ("text-generation", "feature-extraction", "text-classification", "automatic-speech-recognition",
         "text-to-image", "image-classification", "object-detection", "translation")  # fmt: skip
SIZES: dict[str, tuple[int | None, int | None]] = {
    "under 1 B": (None, 10**9 - 1),
    "1 to 10 B": (10**9, 10**10),
    "10 to 100 B": (10**10, 10**11),
    "over 100 B": (10**11 + 1, None),
}
"""Least and most parameters."""


def _visible_teams(request: Any) -> QuerySet[Team]:
    return teams_where(of_request(request), Right.READ).order_by("name")


class ModelFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning", label="Search", widget=SearchInput("Name, task, team, alias, architecture")
    )
    team = django_filters.ModelChoiceFilter(
        field_name="team", to_field_name="name", queryset=_visible_teams, label="Team", empty_label="Any"
    )
    format = django_filters.ChoiceFilter(
        method="of_format", label="Weights", empty_label="Any", choices=WEIGHT_FORMATS
    )
    parameters = django_filters.ChoiceFilter(
        method="of_size", label="Parameters", empty_label="Any", choices=[(one, one) for one in SIZES]
    )
    importing = django_filters.ChoiceFilter(
        method="with_versions_in",
        label="Versions",
        empty_label="Any",
        choices=[
            (VersionState.IMPORTING.value, "Importing"),
            (VersionState.FAILED.value, "Failed"),
            (VersionState.REFUSED.value, "Refused"),
        ],
    )

    def mentioning(self, rows: QuerySet[Model], _name: str, words: str) -> QuerySet[Model]:
        return selectors.mentioning(rows, words)

    def of_format(self, rows: QuerySet[Model], _name: str, format: str) -> QuerySet[Model]:
        return selectors.with_weights(rows, format=format)

    def of_size(self, rows: QuerySet[Model], _name: str, size: str) -> QuerySet[Model]:
        least, most = SIZES[size]
        return selectors.with_weights(rows, parameters_min=least, parameters_max=most)

    def with_versions_in(self, rows: QuerySet[Model], _name: str, state: str) -> QuerySet[Model]:
        return rows.filter(pk__in=Version.objects.filter(state=state).values("model"))


class TaskField(forms.CharField):
    def __init__(self) -> None:
        super().__init__(
            required=False,
            max_length=MAX_TASK,
            help_text=f"In the words of the hub, such as {TASKS[0]} or {TASKS[1]}.",
        )


class DescriptionField(forms.CharField):
    def __init__(self) -> None:
        super().__init__(required=False, max_length=MAX_DESCRIPTION, widget=forms.Textarea(attrs={"rows": 3}))


class ModelChangeForm(forms.Form):
    task = TaskField()
    description = DescriptionField()
    protected_aliases = forms.CharField(
        required=False,
        help_text="Such as production, one per line: only approvers and administrators move or delete these. "
        "A release moves its service's alias all the same.",
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, may_protect: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["protected_aliases"].disabled = not may_protect

    def wishes(self) -> dict[str, Any]:
        """As `services.change_model` takes them."""
        return self.cleaned_data | {"protected_aliases": self.cleaned_data["protected_aliases"].split()}


class NewModelForm(forms.Form):
    name = forms.CharField(
        max_length=95,
        help_text="Of a-z, 0-9, '.', '_' and '-'; unique over all teams, since traffic names it.",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(), to_field_name="name", empty_label=None, help_text="It owns the model."
    )
    task = TaskField()
    description = DescriptionField()

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        teams = teams_where(actor, Right.MODELS_WRITE).order_by("name")
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
