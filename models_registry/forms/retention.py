from django import forms
from django.utils.translation import gettext_lazy as _

from models_registry.services.retention import MOST_DAYS, MOST_VERSIONS


class RetentionForm(forms.Form):
    keep_last = forms.IntegerField(
        label=_("Keep the last"),
        min_value=1,
        max_value=MOST_VERSIONS,
        initial=10,
        help_text=_("Keep the newest N ready versions."),
    )
    keep_days = forms.IntegerField(
        label=_("Keep for days"),
        required=False,
        min_value=0,
        max_value=MOST_DAYS,
        help_text=_("Versions that were ready for a shorter time are kept too."),
    )

    def clean_keep_days(self) -> int:
        return self.cleaned_data["keep_days"] or 0


class RetentionApplyForm(forms.Form):
    preview = forms.CharField(max_length=64, widget=forms.HiddenInput)
    daily = forms.BooleanField(
        required=False,
        label=_("Also apply once a day"),
        help_text=_("Versions that match the rule later are deleted then."),
    )
