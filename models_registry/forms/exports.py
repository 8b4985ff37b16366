"""What people fill in about exports."""

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from common.audit import MAX_REASON
from common.pages.forms import PLAIN
from models_registry.forms.versions import PatternsField
from models_registry.services.checks import MAX_TOKEN
from models_registry.states import ExportKind


class ExportForm(forms.Form):
    kind = forms.ChoiceField(label=_("To"), choices=ExportKind.choices)
    endpoint = forms.ChoiceField(label=_("Address"), help_text=_("The operator of this server names them."))
    repo_id = forms.CharField(
        label=_("Repository or model"),
        max_length=200,
        help_text=_(
            "A repository's name on the hub, such as acme/tiny; or the model's on the other Slipway."
        ),
        widget=forms.TextInput(attrs={"autofocus": True, **PLAIN}),
    )
    branch = forms.CharField(
        max_length=200,
        required=False,
        help_text=_("Of the repository; main unless given."),
        widget=forms.TextInput(attrs=PLAIN),
        label=_("Branch"),
    )
    token = forms.CharField(
        required=False,
        max_length=MAX_TOKEN,
        help_text=_(
            "One that may write there. It is stored encrypted, never shown, and forgotten afterwards."
        ),
        widget=forms.PasswordInput(attrs=PLAIN),
        label=_("Token"),
    )
    create = forms.BooleanField(
        label=_("Create the repository, branch or model if it is missing"), required=False
    )
    private = forms.BooleanField(
        label=_("A repository that is created is private"), required=False, initial=True
    )
    allow_patterns = PatternsField(
        label=_("Include patterns"),
        help_text=_("Shell patterns over whole paths, one per line; none: all files."),
    )
    ignore_patterns = PatternsField(label=_("Exclude patterns"), help_text=_("Such as optimizer.*"))
    reason = forms.CharField(
        label=_("Why it is published"),
        max_length=MAX_REASON,
        help_text=_("It goes into the audit log."),
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
        label=_("Another token"),
        required=False,
        max_length=MAX_TOKEN,
        help_text=_("Empty: the stored one."),
        widget=forms.PasswordInput(attrs=PLAIN),
    )
