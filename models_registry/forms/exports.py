"""What people fill in about exports."""

from typing import Any

from django import forms
from django.conf import settings

from common.audit import MAX_REASON
from common.pages.forms import PLAIN
from models_registry.forms.versions import PatternsField
from models_registry.services.checks import MAX_TOKEN
from models_registry.states import ExportKind


class ExportForm(forms.Form):
    kind = forms.ChoiceField(label="To", choices=ExportKind.choices)
    endpoint = forms.ChoiceField(label="Address", help_text="The operator of this server names them.")
    repo_id = forms.CharField(
        label="Repository or model",
        max_length=200,
        help_text="A repository's name on the hub, such as acme/tiny; or the model's on the other Slipway.",
        widget=forms.TextInput(attrs={"autofocus": True, **PLAIN}),
    )
    branch = forms.CharField(
        max_length=200,
        required=False,
        help_text="Of the repository; main unless given.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    token = forms.CharField(
        required=False,
        max_length=MAX_TOKEN,
        help_text="One that may write there. It is stored encrypted, never shown, and forgotten afterwards.",
        widget=forms.PasswordInput(attrs=PLAIN),
    )
    create = forms.BooleanField(
        label="Create the repository, branch or model if it is missing", required=False
    )
    private = forms.BooleanField(
        label="A repository that is created is private", required=False, initial=True
    )
    allow_patterns = PatternsField(
        label="Only these", help_text="Shell patterns over whole paths, one per line; none: all files."
    )
    ignore_patterns = PatternsField(label="Leave out", help_text="Such as optimizer.*")
    reason = forms.CharField(
        label="Why it is published",
        max_length=MAX_REASON,
        help_text="It goes into the audit log.",
        widget=forms.TextInput(attrs=PLAIN),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)  # noqa: S101
        endpoint.choices = [(one, one) for one in settings.SLIPWAY_EXPORT_ENDPOINTS]


class NewTokenForm(forms.Form):
    """For an export that is tried again."""

    token = forms.CharField(
        label="Another token",
        required=False,
        max_length=MAX_TOKEN,
        help_text="Empty: the stored one.",
        widget=forms.PasswordInput(attrs=PLAIN),
    )
