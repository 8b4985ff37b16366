"""What people fill in about signatures; the reasons are asked for by the dialogs."""

from django import forms
from django.utils.translation import gettext_lazy as _

from trust.signing.keys import MAX_PEM
from trust.states import SignatureDemand


class TrustedKeyForm(forms.Form):
    name = forms.CharField(
        max_length=63, help_text=_("That people know it by, such as release-ci."), label=_("Name")
    )
    pem = forms.CharField(
        label=_("Public key"),
        max_length=MAX_PEM,
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false", "class": "code"}),
        help_text=_("In PEM: an elliptic curve key on P-256, P-384 or P-521."),
    )


class DemandForm(forms.Form):
    demand = forms.ChoiceField(
        label=_("A version without a trusted signature"),
        choices=[(value, label.capitalize()) for value, label in SignatureDemand.choices],
    )
