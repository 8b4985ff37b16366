"""What people fill in about models and versions. Fields only: services decide."""

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
from models_registry.models import Model, Version
from models_registry.services.catalogue import MAX_DESCRIPTION, MAX_TASK
from models_registry.services.checks import MAX_REASON
from models_registry.services.versions import MAX_MESSAGE
from models_registry.sources import MAX_LENGTH
from models_registry.states import VersionState

TASKS = ("text-generation", "feature-extraction", "text-classification", "automatic-speech-recognition",
         "text-to-image", "image-classification", "object-detection", "translation")  # fmt: skip


def _visible_teams(request: Any) -> QuerySet[Team]:
    return teams_where(of_request(request), Right.READ).order_by("name")


class ModelFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning", label="Search", widget=SearchInput("Name, task, team, alias, architecture")
    )
    team = django_filters.ModelChoiceFilter(
        field_name="team", to_field_name="name", queryset=_visible_teams, label="Team", empty_label="Any"
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

    def with_versions_in(self, rows: QuerySet[Model], _name: str, state: str) -> QuerySet[Model]:
        return rows.filter(pk__in=Version.objects.filter(state=state).values("model"))


class VersionFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning", label="Search", widget=SearchInput("Name, digest, message, author")
    )
    state = django_filters.ChoiceFilter(
        label="State",
        empty_label="Any",
        choices=[choice for choice in VersionState.choices if choice[0] != VersionState.DELETED],
    )

    def mentioning(self, rows: QuerySet[Version], _name: str, words: str) -> QuerySet[Version]:
        return selectors.versions_mentioning(rows, words)


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
    revision = forms.IntegerField(widget=forms.HiddenInput)


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


class ImportForm(forms.Form):
    source = forms.CharField(
        label="Directory",
        max_length=MAX_LENGTH,
        help_text="Absolute path on the server, in one of the directories on the right.",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )
    version = forms.CharField(
        label="Version name", required=False, max_length=95, help_text="The next number unless given."
    )
    parent = forms.CharField(
        label="Made from",
        required=False,
        max_length=200,
        help_text="The version that it was made from: v2 of this model, or other-model:v2.",
    )
    ignore_patterns = forms.CharField(
        label="Leave out",
        required=False,
        help_text="Shell patterns over whole paths, one per line, such as *.bin",
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    message = forms.CharField(
        required=False,
        max_length=MAX_MESSAGE,
        help_text="What is new, for those who decide about it.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def wishes(self) -> dict[str, Any]:
        """As `services.import_version` takes them."""
        given = self.cleaned_data
        patterns = [line.strip() for line in given["ignore_patterns"].splitlines()]
        return {
            "source": given["source"],
            "version": given["version"],
            "message": given["message"],
            "lineage": {"parent": given["parent"]} if given["parent"] else None,
            "ignore_patterns": [pattern for pattern in patterns if pattern],
        }


class VersionChoice(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, version: Any) -> str:
        return f"{version.name} · {version.short_digest}"


class AliasForm(forms.Form):
    """Which alias shall point at which version; the reason is asked for by the dialog."""

    alias = forms.CharField(
        max_length=63,
        help_text="A new one, or one that moves.",
        widget=forms.TextInput(attrs={"list": "known-aliases", "autocomplete": "off", "spellcheck": "false"}),
    )
    version = VersionChoice(Version.objects.none(), to_field_name="name", empty_label=None)

    def __init__(self, *args: Any, model: Model, **options: Any) -> None:
        super().__init__(*args, **options)
        ready = Version.objects.ready().filter(model=model).defer("config", "scan").order_by("-number")
        self.fields["version"].queryset = ready  # type: ignore[attr-defined]


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=MAX_REASON, error_messages={"required": "Say why."})
