"""From whom the gateway takes a client's choice between stable and candidate."""

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from releases.forms.policy import reason_field
from releases.states import ReleaseHeader


class ReleaseHeaderForm(forms.Form):
    release_header = forms.ChoiceField(
        label=_("Taken from"),
        choices=ReleaseHeader.choices,
        help_text=_(
            "Clients that send the key: saving makes a new key, which is shown once. "
            "The previous key stops working."
        ),
    )
    reason = reason_field(
        _(
            "Required to let every client choose where releases need an approval or a judge step; that takes "
            "the right releases.bypass."
        )
    )

    def __init__(self, data: QueryDict | None = None, *, present: str) -> None:
        # Beside another form with a reason on the page.
        super().__init__(data, initial={"release_header": present}, auto_id="header_%s")
