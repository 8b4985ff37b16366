from django import forms
from django.utils.translation import gettext_lazy as _

HOURS = ((1, _("1 hour")), (4, _("4 hours")), (24, _("1 day")), (168, _("7 days")))


class SilenceForm(forms.Form):
    hours = forms.TypedChoiceField(choices=HOURS, coerce=float, label=_("Silence for"), initial=4)
