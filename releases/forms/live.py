from django import forms
from django.utils.translation import gettext_lazy as _

from common.pages.forms import MomentInput


class LiveForm(forms.Form):
    at = forms.DateTimeField(
        label=_("Time"),
        widget=MomentInput,
        error_messages={"invalid": _("Give a time such as 2026-03-03T14:00Z.")},
    )
