"""What people fill in about evaluations."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from models_registry.services.evaluations import MAX_DATASET, MAX_LINK, MAX_NAME, MAX_UNIT, FigureInput

DIRECTIONS = (
    ("", _("Unchanged or not given")),
    ("true", _("Higher is better")),
    ("false", _("Lower is better")),
)


class EvaluationForm(forms.Form):
    """A metric of a version; the dialog asks for the reason."""

    name = forms.CharField(
        label=_("Figure"), max_length=MAX_NAME, widget=forms.TextInput(attrs={"placeholder": "accuracy"})
    )
    dataset = forms.CharField(
        required=False,
        max_length=MAX_DATASET,
        widget=forms.TextInput(attrs={"placeholder": "mmlu"}),
        label=_("Dataset"),
    )
    value = forms.FloatField(
        required=False,
        help_text=_("Empty removes the recorded value; its history stays."),
        widget=forms.NumberInput(attrs={"step": "any"}),
        label=_("Value"),
    )
    unit = forms.CharField(
        required=False, max_length=MAX_UNIT, help_text=_("Such as % or ms."), label=_("Unit")
    )
    direction = forms.ChoiceField(required=False, choices=DIRECTIONS, label=_("Direction"))
    link = forms.CharField(
        label=_("Seen at"),
        required=False,
        max_length=MAX_LINK,
        help_text=_("URL of the run that measured it."),
    )

    def measured(self) -> FigureInput:
        """Return the fields as `services.evaluate_version` takes them."""
        given: dict[str, Any] = self.cleaned_data
        return FigureInput(
            name=given["name"],
            dataset=given["dataset"],
            value=given["value"],
            unit=given["unit"] or None,
            is_higher_better=given["direction"] == "true" if given["direction"] else None,
            link=given["link"] or None,
        )
