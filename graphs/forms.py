from django import forms
from django.utils.translation import gettext_lazy as _

from graphs.states import OBJECTIVES


class PlanWishForm(forms.Form):
    """Order of a plan on the machine of the newest profile."""

    objective = forms.ChoiceField(label=_("Objective"), choices=OBJECTIVES)
    rate = forms.FloatField(
        label=_("Rate"), min_value=1e-9, required=False, help_text=_("Items/s; for cost and latency.")
    )
    latency_seconds = forms.FloatField(
        label=_("Latency limit"), min_value=1e-9, required=False, help_text=_("Seconds; empty: no limit.")
    )
