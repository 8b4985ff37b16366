"""Fields of forms that several apps have: names, lists and pairs."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from common.pages.forms import PLAIN


def name_input(placeholder: str = "") -> forms.TextInput:
    """Return an input for a name or an address, which no browser is to correct."""
    return forms.TextInput(attrs={**PLAIN, "autocapitalize": "off", "placeholder": placeholder})


def lines_input(placeholder: str = "") -> forms.Textarea:
    return forms.Textarea(attrs={"rows": 2, "class": "mono", "placeholder": placeholder, **PLAIN})


class LinesField(forms.CharField):
    """A list, one a line."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        return [one for line in str(super().clean(value)).splitlines() if (one := line.strip())]


class PairsField(LinesField):
    """An object, one `key=value` a line."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return "\n".join(f"{key}={one}" for key, one in value.items())
        return value

    def clean(self, value: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in super().clean(value):
            key, equals, one = line.partition("=")
            if not equals or not key.strip():
                raise ValidationError(_("'%(line)s' is not of the form key=value."), params={"line": line})
            found[key.strip()] = one.strip()
        return found
