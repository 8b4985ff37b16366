"""Fields of an objective. Services decide."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.states import Right
from common.actor import Actor
from gateway.latency import BOUNDS_MS
from objectives.models import ServiceObjective
from releases.models import Service

LATENCIES = [("", _("No limit: 5xx and answers cut off are bad"))] + [
    (f"{bound:g}", f"{bound:g} ms") for bound in BOUNDS_MS if bound >= 10
]


def _number_or_none(text: str) -> float | None:
    return float(text) if text else None


class ObjectiveForm(forms.Form):
    target_percent = forms.FloatField(
        label=_("Target in percent"), initial=99.9, help_text=_("Share of requests that must be good.")
    )
    latency_ms = forms.TypedChoiceField(
        label=_("Longest latency"),
        choices=LATENCIES,
        coerce=_number_or_none,
        empty_value=None,
        required=False,
        help_text=_("Answers below 400 that take longer are bad."),
    )
    window_days = forms.IntegerField(min_value=1, max_value=30, initial=30, label=_("Window in days"))
    description = forms.CharField(max_length=500, required=False, label=_("Description"))

    @classmethod
    def of(cls, row: ServiceObjective, data: Any) -> "ObjectiveForm":
        latency = f"{row.latency_ms:g}" if row.latency_ms else ""
        names = ("target_percent", "window_days", "description")
        return cls(data, initial={name: getattr(row, name) for name in names} | {"latency_ms": latency})


class NewObjectiveForm(ObjectiveForm):
    name = forms.SlugField(max_length=63, label=_("Name"))
    service = forms.ModelChoiceField(
        Service.objects.none(), to_field_name="name", label=_("Service"), empty_label=None
    )

    field_order = ("name", "service")

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["service"]
        field.queryset = Service.objects.for_actor(actor, Right.SERVICES_WRITE).order_by("name")
