from django import forms
from django.utils.translation import gettext_lazy as _

from common.pages.forms import MomentInput


class LiveForm(forms.Form):
    at = forms.DateTimeField(label=_("Time"), widget=MomentInput)
