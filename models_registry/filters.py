"""What narrows the lists of models and of versions: the same over REST and on the pages."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

import django_filters
from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.languages import Text
from common.pages.forms import Choice, SearchInput
from models_registry import selectors
from models_registry.facts.summary import WEIGHT_FORMATS
from models_registry.models import Model, Version
from models_registry.states import VersionState

MAX_TEXT = 200
_COUNT = re.compile(r"(\d{1,19}(?:\.\d{1,6})?) ?([kmbt]?)", re.ASCII | re.IGNORECASE)
_DIGEST = re.compile(r"[0-9a-f]{4,64}")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_LARGEST = 2**63 - 1


class CountField(forms.CharField):
    """A number as people write it, `7B` or `7000000000`."""

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        if not text:
            return None
        found = _COUNT.fullmatch(text)
        count = int(Decimal(found[1]) * _UNITS[found[2].lower()]) if found else None
        if count is None or count > _LARGEST:
            raise forms.ValidationError(_("Give a number, such as 7000000000 or 7B."))
        return count


class CountFilter(django_filters.Filter):  # type: ignore[misc]
    field_class = CountField


class DigestField(forms.CharField):
    """What a digest begins with, in hex, with or without `sha256:` in front."""

    def clean(self, value: Any) -> str:
        text = str(super().clean(value)).lower().removeprefix("sha256:")
        if text and not _DIGEST.fullmatch(text):
            raise forms.ValidationError(_("Give 4 to 64 hex digits of the digest."))
        return text


class DigestFilter(django_filters.Filter):  # type: ignore[misc]
    field_class = DigestField


class AnyOf(Choice):
    """Offers one of several values, and takes as many of them as an address names."""

    def __init__(self, *, otherwise: Text) -> None:
        super().__init__()
        self.otherwise = otherwise

    def offered(self) -> Iterable[tuple[Any, Any]]:
        return [("", self.otherwise), *super().offered()]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return [value for value in data.getlist(name) if value]


F = TypeVar("F", bound=django_filters.Filter)


def _told(made: F, help_text: str, **schema: Any) -> F:
    """With what the schema says of it: it cannot be told from `where`, which takes every value."""
    described: F = extend_schema_field({"type": "string", "description": help_text, **schema})(made)
    return described


def _text(label: Text, help_text: str, placeholder: Text = "") -> django_filters.CharFilter:
    made = django_filters.CharFilter(
        method="where", label=label, max_length=MAX_TEXT, widget=SearchInput(placeholder)
    )
    return _told(made, help_text, maxLength=MAX_TEXT)


def _beginning(label: Text, help_text: str, placeholder: Text = "") -> django_filters.CharFilter:
    help_text = f"Prefix of {help_text}; case-insensitive."  # untranslated
    return _text(label, help_text, placeholder)


def _choice(label: Text, help_text: str, choices: Any) -> django_filters.ChoiceFilter:
    made = django_filters.ChoiceFilter(
        method="where", label=label, empty_label=_("Any"), choices=choices, widget=Choice
    )
    return _told(made, help_text, enum=[value for value, _label in choices])


def _count(label: Text, help_text: str) -> CountFilter:
    made = CountFilter(method="where", label=label, max_length=30, widget=SearchInput("7B"))
    help_text = f"Parameter count of {help_text}: a number, or one such as `7B`."  # untranslated
    return _told(made, help_text, pattern=_COUNT.pattern)


def _visible_teams(request: Any) -> QuerySet[Team]:
    return teams_where(of_request(request), Right.READ).order_by("name") if request else Team.objects.none()


SERVED = (("true", _("Served")), ("false", _("Not served")))
STATES = [choice for choice in VersionState.choices if choice[0] != VersionState.DELETED]


class ModelFilter(django_filters.FilterSet):  # type: ignore[misc]
    further: ClassVar = ("architecture", "format", "parameters_min", "parameters_max", "alias", "tag",
                         "created_by", "versions")  # fmt: skip
    """What a page shows when it is asked for."""

    q = _text(
        _("Search"),
        "Words that must occur in name, task, description, team, aliases or architecture.",
        _("Name, task, team, alias, architecture"),
    )
    team = _told(
        django_filters.ModelChoiceFilter(
            method="where",
            to_field_name="name",
            queryset=_visible_teams,
            label=_("Team"),
            empty_label=_("Any"),
            widget=Choice,
            error_messages={"invalid_choice": _("There is no such team, or you may not see it.")},
        ),
        "Owner.",
    )
    task = _beginning(_("Task"), "the task", "text-generation")
    served = _choice(_("Served"), "Only models with, or without, a version in use.", SERVED)
    architecture = _beginning(
        _("Architecture"), "the architecture of the newest ready version", "LlamaForCausalLM"
    )
    format = _choice(_("Weights"), "Weight format of the newest ready version.", WEIGHT_FORMATS)
    parameters_min = _count(_("Parameters from"), "the newest ready version")
    parameters_max = _count(_("to"), "the newest ready version")
    alias = _beginning(_("Alias"), "an alias of any version", "production")
    tag = _text(_("Tag"), "Exact tag of any ready version.", "evaluated")
    created_by = _beginning(_("Created by"), "the creator's name")
    versions = _choice(
        _("Versions"),
        "Only models that have a version in this state.",
        [choice for choice in STATES if choice[0] not in (VersionState.READY, VersionState.ARCHIVED)],
    )

    def where(self, rows: QuerySet[Model], name: str, value: Any) -> QuerySet[Model]:
        return selectors.models_where(rows, name, value == "true" if name == "served" else value)


class VersionFilter(django_filters.FilterSet):  # type: ignore[misc]
    further: ClassVar[tuple[str, ...]] = (
        "architecture", "format", "parameters_min", "parameters_max", "alias", "digest", "source",
        "created_by",
    )  # fmt: skip

    q = _text(
        _("Search"),
        "Words that must occur in name, message, author, digest, architecture or tags.",
        _("Name, tag, digest, message, author"),
    )
    state = _told(
        django_filters.MultipleChoiceFilter(
            method="where",
            label=_("State"),
            choices=STATES,
            widget=AnyOf(otherwise=_("All but archived")),
        ),
        "State; archived versions are excluded by default.",
        enum=[value for value, _label in STATES],
    )
    served = _choice(_("Served"), "Only versions in use, or not in use.", SERVED)
    tag = _text(_("Tag"), "Exact tag.", "evaluated")
    architecture = _beginning(_("Architecture"), "the architecture", "LlamaForCausalLM")
    format = _choice(_("Weights"), "Weight format.", WEIGHT_FORMATS)
    parameters_min = _count(_("Parameters from"), "the version")
    parameters_max = _count(_("to"), "the version")
    alias = _beginning(_("Alias"), "an alias", "production")
    digest = _told(
        DigestFilter(method="where", label=_("Digest"), max_length=71, widget=SearchInput("9f86d081884c")),
        "Prefix of the digest, at least 4 hex digits.",
        maxLength=71,
    )
    source = _text(_("Source"), "Part of the source URL or origin.", "acme/chat@main")
    created_by = _beginning(_("Created by"), "the author's name")

    def where(self, rows: QuerySet[Version], name: str, value: Any) -> QuerySet[Version]:
        return selectors.versions_where(rows, name, value == "true" if name == "served" else value)

    def filter_queryset(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        found: QuerySet[Version] = super().filter_queryset(rows)
        return found if self.form.cleaned_data.get("state") else selectors.without_archived(found)


class AnyVersionFilter(VersionFilter):
    """Of the versions of all models."""

    further: ClassVar[tuple[str, ...]] = ("team", *VersionFilter.further)

    q = _text(
        _("Search"),
        "Words that must occur in model, name, message, author, digest, architecture or tags.",
        "Model, name, tag, digest, message, author",
    )
    model = _beginning(_("Model"), "the model's name", "chat")
    team = _told(
        django_filters.ModelChoiceFilter(
            method="where",
            to_field_name="name",
            queryset=_visible_teams,
            label=_("Team"),
            empty_label=_("Any"),
            widget=Choice,
            error_messages={"invalid_choice": _("There is no such team, or you may not see it.")},
        ),
        "Owner of its model.",
    )

    def where(self, rows: QuerySet[Version], name: str, value: Any) -> QuerySet[Version]:
        return (
            selectors.any_versions_mentioning(rows, value)
            if name == "q"
            else super().where(rows, name, value)
        )
