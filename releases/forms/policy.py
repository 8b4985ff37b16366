"""What people fill in about a release policy. Fields only: services decide."""

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from common.audit import MAX_REASON
from releases.policy import NOTHING, ReleasePolicy


def reason_field(help_text: Any) -> forms.CharField:
    return forms.CharField(
        label=_("Reason"),
        max_length=MAX_REASON,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=help_text,
    )


class NameListField(forms.CharField):
    """Names with commas between them; none is None, which demands nothing."""

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else ", ".join(value or ())

    def to_python(self, value: Any) -> Any:
        names = [name.strip() for name in str(value or "").split(",")]
        return sorted({name for name in names if name}) or None

    def validate(self, value: Any) -> None:
        if self.required and not value:
            super().validate("")

    def run_validators(self, value: Any) -> None:
        """The policy knows what a name may be."""


class PolicyForm(forms.Form):
    approval = forms.ChoiceField(
        label=_("Approval"),
        choices=[
            ("none", _("Not required")),
            ("anyone", _("By anyone with the right, the requester included")),
            ("another_person", _("By another person than the requester")),
        ],
    )
    role = forms.ChoiceField(
        label=_("Role of the approver"), choices=[("approver", _("Approver")), ("admin", _("Admin"))]
    )
    people = forms.IntegerField(label=_("People who must approve"), min_value=1, max_value=10, initial=1)
    approvers = NameListField(
        label=_("Named approvers"),
        required=False,
        help_text=_("User names with commas between them; one of them must approve. Empty: whoever may."),
    )
    fresh_sign_in = forms.BooleanField(
        label=_("Fresh sign-in"),
        required=False,
        help_text=_("Approvers must have signed in within the last five minutes; tokens cannot approve."),
    )
    percent_before_approval = forms.IntegerField(
        label=_("Traffic before the approval (%)"),
        required=False,
        min_value=1,
        max_value=100,
        help_text=_("Maximum weight before approval. Empty: as the service's own plan, at least 50 %."),
    )
    judge = forms.BooleanField(
        label=_("Analysis required"),
        required=False,
        help_text=_("The plan must have a judge step, and the judge must not be lenient."),
    )
    steps = NameListField(
        label=_("Required steps"),
        required=False,
        help_text=_(
            "Kinds of steps that the candidate must pass, with commas between them, such as evaluate, "
            "verify_signature. Empty: none."
        ),
    )
    plans = NameListField(
        label=_("Allowed plans"),
        required=False,
        help_text=_("Names with commas between them. Empty: every plan that meets the rest."),
    )

    return_within_days = forms.IntegerField(
        label=_("Return without canary (days)"),
        required=False,
        min_value=0,
        max_value=3650,
        help_text=_(
            "A version that served within so many days may return without canary and approval. Empty: every "
            "version that ever served; 0: none."
        ),
    )

    def __init__(
        self, data: QueryDict | None = None, *, policy: ReleasePolicy = NOTHING, **initial: Any
    ) -> None:
        super().__init__(data, initial=policy.to_dict() | initial)
        self.fields["reason"] = reason_field(_("Required when less is demanded than before."))

    def document(self) -> dict[str, Any]:
        """Return the document as `releases.policy.ReleasePolicy` reads it."""
        return {name: self.cleaned_data[name] for name in ReleasePolicy.model_fields}


class ServicePolicyForm(PolicyForm):
    policy_replaces_team = forms.BooleanField(
        label=_("Replace the team's policy"),
        required=False,
        help_text=_(
            "The service then need not do what its team demands. This takes the right releases.bypass."
        ),
    )
