"""What people fill in about aliases."""

from functools import cache
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from common.pages.forms import PLAIN, ChoiceSelect
from models_registry.models import Model, Version


class AliasForm(forms.Form):
    """An alias and the version that it shall point at; the dialog asks for the reason."""

    alias = forms.CharField(
        max_length=63,
        help_text=_("A new one, or one that moves."),
        widget=forms.TextInput(attrs={"list": "known-aliases", **PLAIN}),
        label=_("Alias"),
    )
    version = forms.ModelChoiceField(
        Version.objects.none(),
        to_field_name="name",
        empty_label=None,
        widget=ChoiceSelect,
        label=_("Version"),
    )

    def __init__(self, *args: Any, model: Model, **options: Any) -> None:
        super().__init__(*args, **options)
        ready = Version.objects.ready().filter(model=model).order_by("-number")
        field = self.fields["version"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101
        field.queryset = ready
        # Read once: a widget looks at its choices twice.
        field.choices = cache(lambda: [_label(*columns) for columns in ready.values_list("name", "digest")])


def _label(name: str, digest: str | None) -> tuple[str, str]:
    return name, f"{name} · {(digest or '')[:12]}"
