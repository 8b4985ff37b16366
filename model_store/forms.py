from decimal import Decimal
from typing import Self

from django import forms
from django.utils.translation import gettext_lazy as _

from model_store.services import MOST_GRACE_HOURS


class CollectionForm(forms.Form):
    grace_hours = forms.IntegerField(
        label=_("Unneeded for hours"),
        min_value=0,
        max_value=MOST_GRACE_HOURS,
        help_text=_("What nothing has needed for so long is deleted."),
    )


class QuotaForm(forms.Form):
    limit_gb = forms.DecimalField(
        label=_("Limit in GB"),
        required=False,
        min_value=0,
        max_value=4_000_000_000,
        max_digits=16,
        decimal_places=3,
        help_text=_("1 GB is 1,000,000,000 bytes. Empty: no limit."),
    )

    @classmethod
    def of(cls, limit_bytes: int | None) -> Self:
        """Filled in with a limit."""
        limit = None if limit_bytes is None else Decimal(limit_bytes) / 10**9
        return cls(initial={"limit_gb": limit}, auto_id="quota_%s")

    @property
    def limit_bytes(self) -> int | None:
        limit = self.cleaned_data["limit_gb"]
        return None if limit is None else int(limit * 10**9)
