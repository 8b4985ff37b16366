from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from usage.selectors import UsageQuery, usual_span
from usage.states import UsageGroup, UsageMeasure


class UsageForm(forms.Form):
    """Days, groups and filters of a report, as its address has them."""

    since = forms.DateField(label=_("From"), widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(label=_("To"), widget=forms.DateInput(attrs={"type": "date"}))
    by = forms.ChoiceField(label=_("By"), choices=UsageGroup.choices)
    measure = forms.ChoiceField(label=_("Chart"), choices=UsageMeasure.choices)
    team = forms.CharField(label=_("Team"), required=False, max_length=63)
    service = forms.CharField(label=_("Service"), required=False, max_length=128)
    key = forms.CharField(label=_("Client key"), required=False, max_length=63)

    def __init__(self, data: Any) -> None:
        since, until = usual_span()
        usual = {"since": since, "until": until, "by": UsageGroup.SERVICE, "measure": UsageMeasure.REQUESTS}
        super().__init__({**usual, **{name: value for name, value in data.items() if value}})

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if given.get("since") and given.get("until") and given["until"] < given["since"]:
            self.add_error("until", _("Choose a day that is not before the first one."))
        return given

    def query(self, *, by: str = "") -> UsageQuery:
        given = self.cleaned_data
        chosen = {name: given[name] for name in ("since", "until", "team", "service", "key")}
        return UsageQuery(by=(by or given["by"],), **chosen)
