"""What people fill in about models and versions. Fields only: services decide."""

from collections.abc import Sequence
from typing import Any

import django_filters
from django import forms
from django.conf import settings
from django.db.models import QuerySet

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.actor import Actor
from common.pages import formats
from common.pages.forms import MomentInput, SearchInput
from models_registry import selectors
from models_registry.facts import WEIGHT_FORMATS
from models_registry.models import AliasMove, HubSource, Model, Version
from models_registry.services.catalogue import MAX_DESCRIPTION, MAX_TASK
from models_registry.services.checks import MAX_ORIGIN, MAX_REASON
from models_registry.services.exemptions import LONGEST
from models_registry.services.hubs import MAX_TOKEN
from models_registry.services.retention import MOST_DAYS, MOST_VERSIONS
from models_registry.services.storage import MOST_GRACE_HOURS
from models_registry.services.versions import MAX_MESSAGE
from models_registry.sources import MAX_LENGTH
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


class VersionFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning", label="Search", widget=SearchInput("Name, tag, digest, message, author")
    )
    state = django_filters.ChoiceFilter(
        label="State",
        empty_label="All but archived",
        choices=[choice for choice in VersionState.choices if choice[0] != VersionState.DELETED],
    )

    def mentioning(self, rows: QuerySet[Version], _name: str, words: str) -> QuerySet[Version]:
        return selectors.versions_mentioning(rows, words)

    def filter_queryset(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        found: QuerySet[Version] = super().filter_queryset(rows)
        return found if self.form.cleaned_data.get("state") else selectors.without_archived(found)


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


class AliasHistoryFilter(django_filters.FilterSet):  # type: ignore[misc]
    alias = django_filters.CharFilter("alias", label="Alias", widget=SearchInput("production"))
    at = django_filters.IsoDateTimeFilter(method="in_force", label="In force at (UTC)", widget=MomentInput)

    def in_force(self, rows: QuerySet[AliasMove], _name: str, at: Any) -> QuerySet[AliasMove]:
        return selectors.moves_in_force(rows, at)


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


class PatternsField(forms.CharField):
    """Shell patterns, or names, one per line."""

    def __init__(self, *, label: str, help_text: str) -> None:
        text = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})
        super().__init__(label=label, help_text=help_text, required=False, widget=text)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        return [line.strip() for line in super().clean(value).splitlines() if line.strip()]


class ImportForm(forms.Form):
    source = forms.CharField(
        label="Directory or repository",
        max_length=MAX_LENGTH,
        help_text="Absolute path on the server, in one of the directories on the right; "
        "or hf://org/name@revision.",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )
    version = forms.CharField(
        label="Version name", required=False, max_length=95, help_text="The next number unless given."
    )
    message = forms.CharField(
        required=False,
        max_length=MAX_MESSAGE,
        help_text="What is new, for those who decide about it.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    parent = forms.CharField(
        label="Made from",
        required=False,
        max_length=200,
        help_text="The version that it was made from: v2 of this model, or other-model:v2.",
    )
    base_model = forms.CharField(
        label="Base model",
        required=False,
        max_length=MAX_ORIGIN,
        help_text="What it was fine-tuned or quantised from: model:v2, or hf://org/name@revision.",
    )
    job = forms.CharField(
        label="Made by",
        required=False,
        max_length=MAX_ORIGIN,
        help_text="Name or address of the job that made it.",
    )
    learned_from = PatternsField(
        label="Data", help_text="Names or addresses of the data it learned from, one per line."
    )
    ignore_patterns = PatternsField(
        label="Leave out", help_text="Shell patterns over whole paths, one per line, such as *.bin"
    )

    def wishes(self) -> dict[str, Any]:
        """As `services.import_version` takes them."""
        given = self.cleaned_data
        told = {key: given[key] for key in ("parent", "base_model", "job")}
        told["data"] = given["learned_from"]
        return {
            "source": given["source"],
            "version": given["version"],
            "message": given["message"],
            "lineage": {key: value for key, value in told.items() if value},
            "ignore_patterns": given["ignore_patterns"],
        }


EVERY = {None: "when asked for", 3_600: "every hour", 21_600: "every 6 hours", 86_400: "every day",
         604_800: "every week"}  # fmt: skip


def every_in_words(seconds: int | None) -> str:
    return EVERY.get(seconds) or f"every {formats.span(seconds)}"


class HubSourceForm(forms.Form):
    """What can be changed of a source. An empty token keeps the one that is stored."""

    revision = forms.CharField(
        max_length=200,
        initial="main",
        help_text="A branch or tag to follow, or a commit.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    every = forms.ChoiceField(label="Look for a new commit", required=False)
    token = forms.CharField(
        required=False,
        max_length=MAX_TOKEN,
        help_text="For private and gated repositories. It is stored encrypted and never shown.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    forget_token = forms.BooleanField(
        label="Forget the stored token", required=False, help_text="A new one takes its place otherwise."
    )
    release_to = forms.ChoiceField(
        label="When a version is ready",
        required=False,
        help_text="A release is begun in your name; its approvals stay with others.",
    )
    release_plan = forms.CharField(
        label="Release plan",
        required=False,
        max_length=60,
        help_text="The service's own unless given.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    allow_patterns = PatternsField(
        label="Only these", help_text="Shell patterns over whole paths, one per line; none: all files."
    )
    ignore_patterns = PatternsField(
        label="Leave out", help_text="Such as *.bin, where the same weights are there as safetensors."
    )
    expected = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, services: Sequence[str], source: HubSource | None = None) -> None:
        super().__init__(data, initial=_initial(source) if source else None)
        if source is None or not source.has_token:
            del self.fields["forget_token"]
        known = {*EVERY, source.every_seconds if source else None}
        choices = [
            (one or "", every_in_words(one).capitalize()) for one in sorted(known, key=lambda one: one or 0)
        ]
        _choose(self.fields["every"], choices)
        names = sorted({*services, source.release_to if source else ""} - {""})
        _choose(
            self.fields["release_to"],
            [("", "Register it only"), *((name, f"Release it to {name}") for name in names)],
        )
        if not names:
            del self.fields["release_to"], self.fields["release_plan"]

    def wishes(self) -> dict[str, Any]:
        """As the services take them."""
        given = dict(self.cleaned_data)
        is_forgotten = given.pop("forget_token", False)
        if not given["token"] and not is_forgotten:
            del given["token"]
        return given | {"every": int(given["every"]) if given["every"] else None}


def _choose(field: forms.Field, choices: Sequence[tuple[Any, str]]) -> None:
    assert isinstance(field, forms.ChoiceField)  # noqa: S101
    field.choices = choices


def _initial(source: HubSource) -> dict[str, Any]:
    return {
        "revision": source.ref,
        "every": source.every_seconds or "",
        "release_to": source.release_to,
        "release_plan": source.release_plan,
        "allow_patterns": source.allow_patterns,
        "ignore_patterns": source.ignore_patterns,
        "expected": source.revision,
    }


class NewHubSourceForm(HubSourceForm):
    endpoint = forms.ChoiceField(label="Hub", help_text="The operator of this server names them.")
    repo_id = forms.CharField(
        label="Repository",
        max_length=200,
        help_text="Its name on the hub, such as acme/tiny.",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )
    field_order = ("endpoint", "repo_id")

    def __init__(self, data: Any = None, *, services: Sequence[str]) -> None:
        super().__init__(data, services=services)
        del self.fields["expected"]
        _choose(self.fields["endpoint"], [(one, one) for one in settings.SLIPWAY_HUB_ENDPOINTS])


class TagForm(forms.Form):
    tags = forms.CharField(
        required=False,
        max_length=4_000,
        help_text="Words with blanks between them, such as evaluated or language=en.",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )

    def words(self) -> set[str]:
        return set(self.cleaned_data["tags"].replace(",", " ").split())


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


class RetentionForm(forms.Form):
    keep_last = forms.IntegerField(
        label="Keep the last",
        min_value=1,
        max_value=MOST_VERSIONS,
        initial=10,
        help_text="So many of the newest ready versions stay.",
    )
    keep_days = forms.IntegerField(
        label="Keep for days",
        required=False,
        min_value=0,
        max_value=MOST_DAYS,
        help_text="What has been ready for less stays too.",
    )

    def clean_keep_days(self) -> int:
        return self.cleaned_data["keep_days"] or 0


class RetentionApplyForm(forms.Form):
    preview = forms.CharField(max_length=64, widget=forms.HiddenInput)
    daily = forms.BooleanField(
        required=False,
        label="And once a day from now on",
        help_text="What falls under the rule later goes then.",
    )


class CollectionForm(forms.Form):
    grace_hours = forms.IntegerField(
        label="Unneeded for hours",
        min_value=0,
        max_value=MOST_GRACE_HOURS,
        help_text="What nothing has needed for so long is deleted.",
    )


class ExemptionForm(forms.Form):
    """Of one model or all that the team has; the reason is asked for by the dialog."""

    model = forms.ModelChoiceField(
        Model.objects.none(), to_field_name="name", required=False, empty_label="Every model of the team"
    )
    days = forms.IntegerField(
        label="Days",
        min_value=1,
        max_value=LONGEST.days,
        initial=30,
        help_text=f"At most {LONGEST.days}; then it is over by itself.",
    )

    def __init__(self, *args: Any, team: Team, **options: Any) -> None:
        super().__init__(*args, **options)
        models = Model.objects.live().filter(team=team).order_by("name")
        self.fields["model"].queryset = models  # type: ignore[attr-defined]


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=MAX_REASON, error_messages={"required": "Say why."})
