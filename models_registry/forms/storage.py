"""What people fill in about retention and collections."""

from django import forms

from models_registry.services.retention import MOST_DAYS, MOST_VERSIONS
from models_registry.services.storage import MOST_GRACE_HOURS


class RetentionForm(forms.Form):
    keep_last = forms.IntegerField(
        label="Keep the last",
        min_value=1,
        max_value=MOST_VERSIONS,
        initial=10,
        help_text="So many of the newest ready versions stay.",
    )
    keep_days = forms.IntegerField(
        label="Keep for days",
        required=False,
        min_value=0,
        max_value=MOST_DAYS,
        help_text="What has been ready for less stays too.",
    )

    def clean_keep_days(self) -> int:
        return self.cleaned_data["keep_days"] or 0


class RetentionApplyForm(forms.Form):
    preview = forms.CharField(max_length=64, widget=forms.HiddenInput)
    daily = forms.BooleanField(
        required=False,
        label="And once a day from now on",
        help_text="What falls under the rule later goes then.",
    )


class CollectionForm(forms.Form):
    grace_hours = forms.IntegerField(
        label="Unneeded for hours",
        min_value=0,
        max_value=MOST_GRACE_HOURS,
        help_text="What nothing has needed for so long is deleted.",
    )
