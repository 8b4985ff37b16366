"""What people fill in about sources on hubs and exports. Fields only: services decide."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from common.audit import MAX_REASON
from common.languages import Text
from common.pages import formats
from common.pages.forms import PLAIN
from hubs.models import HubSource
from hubs.services.checks import MAX_TOKEN
from hubs.states import ExportKind, HubKind
from models_registry.forms.versions import PatternsField


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
    """The token for an export that is retried."""

    token = forms.CharField(
        label=_("Another token"),
        required=False,
        max_length=MAX_TOKEN,
        help_text=_("Empty: the stored one."),
        widget=forms.PasswordInput(attrs=PLAIN),
    )


EVERY = {
    None: _("when asked for"),
    3_600: _("every hour"),
    21_600: _("every 6 hours"),
    86_400: _("every day"),
    604_800: _("every week"),
}


def every_in_words(seconds: int | None) -> str:
    return str(EVERY.get(seconds) or _("every %(seconds)s") % {"seconds": formats.span(seconds)})


class HubSourceForm(forms.Form):
    """The fields of a source that can be changed. An empty token keeps the stored one."""

    revision = forms.CharField(
        max_length=200,
        help_text=_("A branch or tag to follow, or a commit."),
        widget=forms.TextInput(attrs=PLAIN),
        label=_("Revision"),
    )
    every = forms.ChoiceField(label=_("Check interval"), required=False)
    token = forms.CharField(
        required=False,
        max_length=MAX_TOKEN,
        help_text=_("For private and gated repositories. It is stored encrypted and never shown."),
        widget=forms.PasswordInput(attrs=PLAIN),
        label=_("Token"),
    )
    forget_token = forms.BooleanField(
        label=_("Forget the stored token"),
        required=False,
        help_text=_("A new one takes its place otherwise."),
    )
    release_to = forms.ChoiceField(
        label=_("When a version is ready"),
        required=False,
        help_text=_("A release is begun in your name; its approvals stay with others."),
    )
    release_plan = forms.ChoiceField(label=_("Release plan"), required=False)
    allow_patterns = PatternsField(
        label=_("Include patterns"),
        help_text=_("Shell patterns over whole paths, one per line; none: all files."),
    )
    ignore_patterns = PatternsField(
        label=_("Exclude patterns"),
        help_text=_("Such as *.bin, where the same weights are there as safetensors."),
    )
    expected = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(
        self,
        data: Any = None,
        *,
        services: Sequence[str],
        plans: Sequence[str],
        source: HubSource | None = None,
    ) -> None:
        super().__init__(data, initial=_initial(source) if source else None)
        if source is None or not source.has_token:
            del self.fields["forget_token"]
        known = {*EVERY, source.every_seconds if source else None}
        choices = [
            (one or "", every_in_words(one).capitalize()) for one in sorted(known, key=lambda one: one or 0)
        ]
        _choose(self.fields["every"], choices)
        names = sorted({*services, source.release_to if source else ""} - {""})
        _choose(
            self.fields["release_to"],
            [
                ("", _("Register it only")),
                *((name, _("Release it to %(name)s") % {"name": name}) for name in names),
            ],
        )
        by = sorted({*plans, source.release_plan if source else ""} - {""})
        _choose(self.fields["release_plan"], [("", _("The service's own")), *((name, name) for name in by)])
        if not names:
            del self.fields["release_to"], self.fields["release_plan"]

    def wishes(self) -> dict[str, Any]:
        """Return the fields as the services take them."""
        given = dict(self.cleaned_data)
        is_forgotten = given.pop("forget_token", False)
        if not given["token"] and not is_forgotten:
            del given["token"]
        return given | {"every": int(given["every"]) if given["every"] else None}


def _choose(field: forms.Field, choices: Sequence[tuple[Any, Text]]) -> None:
    assert isinstance(field, forms.ChoiceField)  # noqa: S101
    field.choices = choices


def _initial(source: HubSource) -> dict[str, Any]:
    return {
        "revision": source.ref,
        "every": source.every_seconds or "",
        "release_to": source.release_to,
        "release_plan": source.release_plan,
        "allow_patterns": source.allow_patterns,
        "ignore_patterns": source.ignore_patterns,
        "expected": source.revision,
    }


class NewHubSourceForm(HubSourceForm):
    endpoint = forms.ChoiceField(label=_("Hub"), help_text=_("The operator of this server names them."))
    kind = forms.ChoiceField(label=_("Protocol"), choices=HubKind.choices, required=False)
    repo_id = forms.CharField(
        label=_("Repository"),
        max_length=200,
        help_text=_("Its name on the hub, such as acme/tiny."),
        widget=forms.TextInput(attrs={"autofocus": True, **PLAIN}),
    )
    field_order = ("endpoint", "kind", "repo_id")

    def __init__(self, data: Any = None, *, services: Sequence[str], plans: Sequence[str]) -> None:
        super().__init__(data, services=services, plans=plans)
        del self.fields["expected"]
        self.fields["revision"].required = False
        given = self.fields["revision"].help_text
        self.fields["revision"].help_text = f"{given} " + str(
            _("The repository's default branch unless given.")
        )
        _choose(self.fields["endpoint"], [(one, one) for one in settings.SLIPWAY_HUB_ENDPOINTS])

    def clean_kind(self) -> str:
        return self.cleaned_data["kind"] or HubKind.HUGGINGFACE
