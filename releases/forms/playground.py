import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _


class PlaygroundForm(forms.Form):
    path = forms.RegexField(
        r"^/[^/?#\s][^?#\s]*$",
        label=_("Path"),
        max_length=300,
        error_messages={"invalid": _("Give a path such as /v1/completions.")},
    )
    body = forms.CharField(
        label=_("Body (JSON)"), max_length=64_000, widget=forms.Textarea(attrs={"rows": 10})
    )

    def __init__(self, data: Any = None, *, routes: Sequence[str], initial: Any = None) -> None:
        super().__init__(data, initial=initial)
        self.fields["path"].help_text = ", ".join(routes)

    def clean_body(self) -> Any:
        try:
            given = json.loads(self.cleaned_data["body"])
        except ValueError as error:
            raise forms.ValidationError(_("This is no JSON: %(error)s"), params={"error": error}) from None
        if not isinstance(given, dict):
            raise forms.ValidationError(_("Give an object, such as {}."))
        return given
