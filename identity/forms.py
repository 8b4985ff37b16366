"""Fields only: services decide."""

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right, Role
from common.actor import Actor
from identity.patterns import MAX_PATTERN


class GroupRuleForm(forms.Form):
    pattern = forms.CharField(
        max_length=MAX_PATTERN,
        label=_("Group"),
        help_text=_("As the identity provider sends it. * stands for any characters: ml-*."),
        widget=forms.TextInput(attrs={"autofocus": True, "spellcheck": "false", "autocomplete": "off"}),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="name",
        required=False,
        label=_("Team"),
        empty_label=_("The whole installation: administrators"),
    )
    role = forms.ChoiceField(
        required=False,
        label=_("Role"),
        choices=[("", _("Administrator")), *Role.choices],
        help_text=_("In the team. Administrators have no team."),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        teams = Team.objects.order_by("name")
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        if first := teams.first():
            # Nobody makes administrators by leaving the form as it was.
            self.fields["team"].initial, self.fields["role"].initial = first.name, Role.VIEWER


class ServiceAccountForm(forms.Form):
    username = forms.CharField(
        max_length=150, label=_("Username"), widget=forms.TextInput(attrs={"autofocus": True})
    )
    team = forms.ModelChoiceField(
        Team.objects.none(), to_field_name="name", label=_("Team"), empty_label=None
    )
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.DEVELOPER)
    description = forms.CharField(required=False, max_length=150, label=_("Description"))

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        teams = teams_where(actor, Right.PEOPLE_ADMIN).order_by("name")
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]


class CredentialForm(forms.Form):
    name = forms.CharField(max_length=100, label=_("Name"))
    issuer = forms.ChoiceField(label=_("Issuer"), help_text=_("Those that SLIPWAY_CI_ISSUERS names."))
    subject = forms.CharField(
        required=False,
        max_length=MAX_PATTERN,
        label=_("Subject"),
        help_text=_("Such as repo:acme/api:ref:refs/heads/main. * stands for any characters."),
    )
    claims = forms.CharField(
        required=False,
        max_length=4_000,
        label=_("Claims"),
        help_text=_("One a line: environment=production."),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    audience = forms.CharField(max_length=500, label=_("Audience"))
    scopes = forms.MultipleChoiceField(label=_("Scopes"), widget=forms.CheckboxSelectMultiple)
    minutes = forms.IntegerField(
        min_value=1, max_value=12 * 60, initial=30, label=_("Lifetime of the token in minutes")
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        issuer: Any = self.fields["issuer"]
        issuer.choices = [(one, one) for one in settings.SLIPWAY_CI_ISSUERS]
        scopes: Any = self.fields["scopes"]
        scopes.choices = [(right.value, right.value) for right in Right]
        self.fields["audience"].initial = settings.SLIPWAY_PUBLIC_URL

    def clean_claims(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in filter(None, map(str.strip, self.cleaned_data["claims"].splitlines())):
            name, equals, value = line.partition("=")
            if not (name.strip() and equals and value.strip()):
                raise forms.ValidationError(_("Give one claim a line: environment=production."))
            found[name.strip()] = value.strip()
        return found


class GroupsForm(forms.Form):
    groups = forms.CharField(
        required=False,
        max_length=10_000,
        label=_("Groups"),
        help_text=_("One a line, or between commas."),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
