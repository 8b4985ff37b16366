"""What people fill in about exemptions."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from models_registry.models import Model
from models_registry.services.exemptions import LONGEST


class ExemptionForm(forms.Form):
    """An exemption of one model or all of a team's; the dialog asks for the reason."""

    model = forms.ModelChoiceField(
        Model.objects.none(),
        to_field_name="name",
        required=False,
        empty_label=_("Every model of the team"),
        label=_("Model"),
    )
    covers_runnable = forms.BooleanField(
        label=_("Formats that run code too"),
        required=False,
        help_text=_("Pickles (.bin, .pt, .ckpt, .pkl), NumPy, HDF5 and Keras files may even enter."),
    )
    days = forms.IntegerField(
        label=_("Days"),
        min_value=1,
        max_value=LONGEST.days,
        initial=30,
        help_text=_("At most %(days)s; then it is over by itself.") % {"days": LONGEST.days},
    )

    def __init__(self, *args: Any, team: Team, **options: Any) -> None:
        super().__init__(*args, **options)
        models = Model.objects.live().filter(team=team).order_by("name")
        self.fields["model"].queryset = models  # type: ignore[attr-defined]
