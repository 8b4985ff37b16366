from typing import ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from graphs.models import Graph
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


class AdaptationForm(forms.ModelForm):  # type: ignore[type-arg]
    """When plans follow the times that workers measure."""

    class Meta:
        model = Graph
        fields = ("adapt", "gain_percent", "horizon_seconds", "dwell_seconds", "starts_per_day")
        labels: ClassVar = {
            "adapt": _("Mode"),
            "gain_percent": _("Least gain"),
            "horizon_seconds": _("Horizon"),
            "dwell_seconds": _("Dwell"),
            "starts_per_day": _("Starts per day"),
        }
        help_texts: ClassVar = {
            "adapt": _("Advise makes a plan, Approve asks for its start, Automatic starts it."),
            "gain_percent": _("Percent of the items of the horizon, the cost of the start taken off."),
            "horizon_seconds": _("Seconds."),
            "dwell_seconds": _("Seconds for which a plan stays active."),
            "starts_per_day": _("Adapted plans that may be started within 24 hours."),
        }
