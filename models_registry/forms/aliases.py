"""What people fill in about aliases."""

from typing import Any

import django_filters
from django import forms
from django.db.models import QuerySet

from common.pages.forms import MomentInput, SearchInput
from models_registry import selectors
from models_registry.models import AliasMove, Model, Version


class AliasHistoryFilter(django_filters.FilterSet):  # type: ignore[misc]
    alias = django_filters.CharFilter("alias", label="Alias", widget=SearchInput("production"))
    at = django_filters.IsoDateTimeFilter(method="in_force", label="In force at (UTC)", widget=MomentInput)

    def in_force(self, rows: QuerySet[AliasMove], _name: str, at: Any) -> QuerySet[AliasMove]:
        return selectors.moves_in_force(rows, at)


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
