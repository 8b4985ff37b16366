"""What narrows the lists of models, of versions and of moves of aliases: over REST and on the pages."""

import re
from typing import Any, ClassVar

import django_filters
from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.filters import team
from common import filters
from common.filters import ListFilter, described
from common.languages import Text
from common.pages.forms import SearchInput
from models_registry.models import Alias, Version, VersionTag
from models_registry.references import models_in_use, versions_in_use
from models_registry.selectors.aliases import in_force_at
from models_registry.selectors.catalogue import mentioning
from models_registry.selectors.versions import any_versions_mentioning, versions_mentioning, without_archived
from models_registry.states import VersionState
from trust.formats.summary import WEIGHT_FORMATS

_DIGEST = re.compile(r"[0-9a-f]{4,64}")


class DigestField(forms.CharField):
    """The first hex digits of a digest, with or without `sha256:` in front."""

    def clean(self, value: Any) -> str:
        text = str(super().clean(value)).lower().removeprefix("sha256:")
        if text and not _DIGEST.fullmatch(text):
            raise forms.ValidationError(_("Give 4 to 64 hex digits of the digest."))
        return text


class DigestFilter(django_filters.Filter):  # type: ignore[misc]
    field_class = DigestField


def _beginning(label: Text, says: str, by: filters.By, placeholder: Text = "") -> Any:
    says = f"Prefix of {says}; case-insensitive."  # untranslated
    return filters.text(label, says, by, placeholder)


def _weights(of: str, format: str) -> tuple[Any, ...]:
    """Architecture, format, fewest and most parameters `of` a version; `format` names the column.

    A number that is not known is neither small nor large.
    """
    architecture, weights = f"the architecture of {of}", f"Weight format of {of}."  # untranslated
    least, most = f"Least parameter count of {of}", f"Greatest parameter count of {of}"  # untranslated
    return (
        _beginning(_("Architecture"), architecture, "architecture__istartswith", "LlamaForCausalLM"),
        filters.choice(_("Weights"), weights, WEIGHT_FORMATS, format),
        filters.count(_("Parameters from"), least, "parameters__gte"),
        filters.count(_("to"), most, "parameters__lte"),
    )


def _aliases(text: str) -> QuerySet[Alias]:
    """Return aliases that begin with the text. Their names are in lower case, see `names`."""
    return Alias.objects.filter(name__startswith=text.lower())


def _tagged(**of: Any) -> Any:
    return lambda tag: Q(Exists(VersionTag.objects.filter(name=tag, **of)))


SERVED = (("true", _("Served")), ("false", _("Not served")))
STATES = [choice for choice in VersionState.choices if choice[0] != VersionState.DELETED]


class ModelFilter(ListFilter):
    further = ("architecture", "format", "parameters_min", "parameters_max", "alias", "tag", "created_by",
               "versions")  # fmt: skip

    q = filters.search(
        "Words that must occur in name, task, description, team, aliases or architecture.",
        _("Name, task, team, alias, architecture"),
        mentioning,
    )
    team = team("Owner.", "team")
    task = _beginning(_("Task"), "the task", "task__istartswith", "text-generation")
    served = filters.truth(
        _("Served"),
        "Only models with, or without, a version in use.",
        lambda is_wanted: models_in_use() if is_wanted else ~models_in_use(),
        SERVED,
    )
    architecture, format, parameters_min, parameters_max = _weights("the newest ready version", "weights")
    alias = _beginning(
        _("Alias"),
        "an alias of any version",
        lambda text: Q(pk__in=_aliases(text).values("model")),
        "production",
    )
    tag = filters.text(
        _("Tag"), "Exact tag of any ready version.", _tagged(model=OuterRef("pk"), is_ready=True), "evaluated"
    )
    created_by = _beginning(_("Created by"), "the creator's name", "created_by_name__istartswith")
    versions = filters.choice(
        _("Versions"),
        "Only models that have a version in this state.",
        [choice for choice in STATES if choice[0] not in (VersionState.READY, VersionState.ARCHIVED)],
        lambda state: Q(pk__in=Version.objects.filter(state=state).values("model")),
    )


class VersionFilter(ListFilter):
    further: ClassVar[tuple[str, ...]] = (
        "architecture", "format", "parameters_min", "parameters_max", "alias", "digest", "source",
        "created_by",
    )  # fmt: skip

    q = filters.search(
        "Words that must occur in name, message, author, digest, architecture or tags.",
        _("Name, tag, digest, message, author"),
        versions_mentioning,
    )
    state = filters.any_of(
        _("State"),
        "State; archived versions are excluded by default.",
        STATES,
        "state__in",
        otherwise=_("All but archived"),
    )
    served = filters.truth(
        _("Served"),
        "Only versions in use, or not in use.",
        lambda is_wanted: versions_in_use() if is_wanted else ~versions_in_use(),
        SERVED,
    )
    tag = filters.text(_("Tag"), "Exact tag.", _tagged(version=OuterRef("pk")), "evaluated")
    architecture, format, parameters_min, parameters_max = _weights("the version", "facts__format")
    alias = _beginning(
        _("Alias"), "an alias", lambda text: Q(pk__in=_aliases(text).values("version")), "production"
    )
    digest = described(
        DigestFilter(
            "digest", "startswith", label=_("Digest"), max_length=71, widget=SearchInput("9f86d081884c")
        ),
        "Prefix of the digest, at least 4 hex digits.",
        maxLength=71,
    )
    source = filters.text(
        _("Source"),
        "Part of the source URL or origin.",
        lambda text: Q(source__uri__icontains=text) | Q(source__origin__icontains=text),
        "acme/chat@main",
    )
    created_by = _beginning(_("Created by"), "the author's name", "author_name__istartswith")

    def filter_queryset(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        found: QuerySet[Version] = super().filter_queryset(rows)
        return found if self.form.cleaned_data.get("state") else without_archived(found)


class AnyVersionFilter(VersionFilter):
    """Filters of the versions of all models."""

    further: ClassVar[tuple[str, ...]] = ("team", *VersionFilter.further)

    q = filters.search(
        "Words that must occur in model, name, message, author, digest, architecture or tags.",
        "Model, name, tag, digest, message, author",
        any_versions_mentioning,
    )
    model = _beginning(_("Model"), "the model's name", "model__name__istartswith", "chat")
    team = team("Owner of its model.", "model__team")


class MoveFilter(ListFilter):
    """Filters of the moves of one alias."""

    at = filters.moment(_("In force at"), "State at this time.", in_force_at)


class AliasMoveFilter(MoveFilter):
    """Filters of the moves of all aliases of a model."""

    alias = filters.text(
        _("Alias"), "Part of the alias; case-insensitive.", "alias__icontains", _("production")
    )
