"""What people fill in about themselves, others, teams, tokens and webhooks. Fields only: services decide."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from accounts import token_presets
from accounts.models import Team, User, WebhookEndpoint
from accounts.selectors import may_everywhere, rights_held, teams_where
from accounts.services.tokens import LONGEST, USUAL
from accounts.states import LeastSeverity, Right, Role, WebhookFormat
from common import clock
from common.actor import Actor
from common.webhooks import catalogue
from common.webhooks.catalogue import WebhookEventType

LIVES = (7, 30, USUAL.days, 180, LONGEST.days)


class AccountForm(forms.Form):
    first_name = forms.CharField(required=False, max_length=150, label=_("First name"))
    last_name = forms.CharField(required=False, max_length=150, label=_("Last name"))
    email = forms.EmailField(required=False, label=_("Email"))


def time_zones() -> list[tuple[str, object]]:
    return [("", _("The browser's")), *((name, name) for name in sorted(available_timezones()))]


class OwnAccountForm(AccountForm):
    language = forms.ChoiceField(
        required=False,
        label=_("Language"),
        choices=[("", _("The browser's")), *settings.LANGUAGES],
    )
    time_zone = forms.ChoiceField(
        required=False,
        label=_("Time zone"),
        choices=time_zones,
        help_text=_("In which all times are shown."),
    )


class PersonForm(AccountForm):
    is_superuser = forms.BooleanField(
        required=False, label=_("Administrator"), help_text=_("Has every right in every team.")
    )
    revision = forms.IntegerField(widget=forms.HiddenInput)


class NewPersonForm(AccountForm):
    username = forms.CharField(
        max_length=150, label=_("Username"), widget=forms.TextInput(attrs={"autofocus": True})
    )
    password = forms.CharField(
        required=False,
        label=_("Password"),
        strip=False,
        max_length=1_000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_("Without a password this person cannot sign in until one is set."),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="name",
        required=False,
        label=_("Team"),
        empty_label=_("No team yet"),
    )
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.VIEWER)
    field_order = ("username", "first_name", "last_name", "email", "password", "team", "role")

    def __init__(self, *args: Any, actor: Actor, everywhere: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        team = self.fields["team"]
        team.queryset = teams_where(actor, Right.PEOPLE_ADMIN).order_by("name")  # type: ignore[attr-defined]
        if not everywhere:
            team.required, team.empty_label = True, None  # type: ignore[attr-defined]


class PasswordForm(forms.Form):
    password = forms.CharField(
        strip=False,
        max_length=1_000,
        label=_("New password"),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class TeamForm(forms.Form):
    description = forms.CharField(
        required=False, max_length=2_000, label=_("Description"), widget=forms.Textarea(attrs={"rows": 2})
    )


class NewTeamForm(TeamForm):
    name = forms.CharField(
        max_length=63,
        label=_("Name"),
        widget=forms.TextInput(attrs={"autofocus": True}),
        help_text=_("Lower-case letters, digits and hyphens. It cannot be changed later."),
    )
    field_order = ("name", "description")


class MemberForm(forms.Form):
    username = forms.CharField(max_length=150, label=_("Person"))
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices)


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=100,
        label=_("Name"),
        help_text=_("What the token is for."),
        widget=forms.TextInput(attrs={"autofocus": True}),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Limited to selected scopes you hold."),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="name",
        required=False,
        label=_("Team"),
        empty_label=_("All my teams"),
        help_text=_("Limits the token to one team."),
    )
    services = forms.CharField(
        required=False,
        max_length=2_000,
        label=_("Services"),
        help_text=_(
            "Names, separated by commas: the token changes and releases these alone. Empty: every service."
        ),
        widget=forms.TextInput(attrs={"placeholder": "chat, embeddings"}),
    )
    days = forms.TypedChoiceField(
        label=_("Expires in"),
        coerce=int,
        initial=USUAL.days,
        choices=lambda: [(days, _("%(days)s days") % {"days": days}) for days in LIVES],
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["team"].queryset = teams_where(actor, Right.READ).order_by("name")  # type: ignore[attr-defined]
        # Everybody has webhooks of their own, whatever their roles.
        held = sorted({*rights_held(actor), Right.WEBHOOKS_WRITE}, key=list(Right).index)
        self.presets = token_presets.offered(held)
        self._groups = token_presets.grouped(held)
        scopes: Any = self.fields["scopes"]
        scopes.choices = [
            (right.value, _sentence(right)) for _group, rights in self._groups for right in rights
        ]

    def scope_groups(self) -> list[tuple[str, list[Any]]]:
        """Boxes to tick, by what they are about."""
        boxes = iter(self["scopes"].subwidgets)
        return [(label, [next(boxes) for _right in rights]) for label, rights in self._groups]

    def wishes(self) -> dict[str, Any]:
        """Return the fields as `services.create_token` takes them."""
        given = dict(self.cleaned_data)
        # A minute less, so that the longest choice stays within the longest that is allowed.
        expires_at = clock.now() + timedelta(days=given.pop("days")) - timedelta(minutes=1)
        services = [name.strip() for name in given.pop("services").split(",") if name.strip()]
        return given | {"expires_at": expires_at, "services": services}


def _events(words: Callable[[WebhookEventType], str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the choices of events under their headings."""
    return [
        (heading, [(one.name, words(one)) for one in events])
        for heading, events in catalogue.by_heading().items()
    ]


class WebhookForm(forms.Form):
    url = forms.CharField(
        max_length=2_000,
        label=_("URL"),
        widget=forms.URLInput(attrs={"placeholder": "https://hooks.example.org/slipway"}),
        help_text=_("A public https address, unless the installation allows others."),
    )
    description = forms.CharField(required=False, max_length=300, label=_("Description"))
    events = forms.MultipleChoiceField(
        required=False,
        label=_("Events"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None selected: every event but audit.head."),
    )
    teams = forms.MultipleChoiceField(
        required=False,
        label=_("Teams"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Events of these teams only; none selected: of all."),
    )
    severity = forms.ChoiceField(
        required=False,
        choices=LeastSeverity.choices,
        initial=LeastSeverity.ANY,
        label=_("Least severity"),
        help_text=_("Of alerts and GPU findings; other events have none."),
    )
    format = forms.ChoiceField(
        required=False,
        choices=WebhookFormat.choices,
        initial=WebhookFormat.STANDARD,
        label=_("Format"),
        help_text=_("Whose messages the receiver takes. Of e-mail the URL is mailto:ops@example.org."),
    )
    language = forms.ChoiceField(
        required=False, choices=settings.LANGUAGES, initial="en", label=_("Language of messages")
    )
    digest_minutes = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=1_440,
        initial=0,
        label=_("Digest, minutes"),
        help_text=_("Messages of so many minutes go as one; 0: each by itself."),
    )
    quiet_from = forms.TimeField(
        required=False, label=_("Quiet from"), widget=forms.TimeInput(attrs={"type": "time"})
    )
    quiet_until = forms.TimeField(
        required=False,
        label=_("Quiet until"),
        widget=forms.TimeInput(attrs={"type": "time"}),
        help_text=_("Messages of these hours wait for their end; empty: none does."),
    )
    quiet_zone = forms.CharField(required=False, max_length=64, initial="UTC", label=_("Time zone"))
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, endpoint: WebhookEndpoint | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        events: Any = self.fields["events"]
        events.choices = _events(lambda one: one.name)
        teams = Team.objects.order_by("name")
        if endpoint is None or endpoint.team is not None:
            del self.fields["teams"]
        elif endpoint.person is not None:
            self.make_personal(endpoint.person)
        else:
            self._offer(teams)

    def make_personal(self, person: User) -> None:
        """Offer what a person's own webhook may have."""
        teams = Team.objects.order_by("name")
        self._offer(teams if person.is_superuser else teams.filter(memberships__user=person))
        url = self.fields["url"]
        url.required = False
        self.fields["format"].help_text = ""
        url.help_text = _(
            "Of a chat or another service. E-mail goes to the address of your account: leave it empty."
        )

    def _offer(self, teams: QuerySet[Team]) -> None:
        field: Any = self.fields["teams"]
        field.choices = [(team.name, team.name) for team in teams]

    def clean(self) -> dict[str, Any]:
        """Put the quiet hours together as the service takes them."""
        given: dict[str, Any] = {**(super().clean() or {})}
        for name in ("format", "language", "digest_minutes", "severity"):
            if given.get(name) in (None, ""):
                given[name] = self.get_initial_for_field(self.fields[name], name)
        begin, end, zone = (given.pop(f"quiet_{name}", None) for name in ("from", "until", "zone"))
        if (begin is None) != (end is None):
            self.add_error("quiet_until", _("Give both times, or none."))
        given["quiet_hours"] = (
            {"from": f"{begin:%H:%M}", "until": f"{end:%H:%M}", "zone": zone or "UTC"}
            if begin and end
            else None
        )
        return given


class NewWebhookForm(WebhookForm):
    team = forms.ModelChoiceField(
        Team.objects.none(), to_field_name="name", label=_("Team"), help_text=_("Whose events it receives.")
    )
    revision = None  # type: ignore[assignment]
    field_order = ("url", "format", "team", "description", "events")

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        events: Any = self.fields["events"]
        events.choices = _events(lambda one: f"{one.name}: {one.description}")
        team: Any = self.fields["team"]
        team.queryset = teams_where(actor, Right.WEBHOOKS_WRITE).order_by("name")
        if may_everywhere(actor, Right.WEBHOOKS_WRITE):
            team.required, team.empty_label = False, _("The whole installation")
        else:
            team.empty_label = None


class OwnWebhookForm(WebhookForm):
    revision = None  # type: ignore[assignment]
    field_order = ("format", "url", "description", "teams", "severity", "events")

    def __init__(self, *args: Any, person: User, **options: Any) -> None:
        super().__init__(*args, endpoint=WebhookEndpoint(person=person), **options)
        events: Any = self.fields["events"]
        events.choices = _events(lambda one: f"{one.name}: {one.description}")
        self.fields["format"].initial = WebhookFormat.EMAIL
        self.fields["language"].initial = person.language or "en"
        self.fields["quiet_zone"].initial = person.time_zone or "UTC"


def _sentence(right: Right) -> str:
    label = str(right.label)
    return label[:1].upper() + label[1:]


class AnswerForm(forms.Form):
    """Whether an effect in doubt took place."""

    op_key = forms.CharField(max_length=200, widget=forms.HiddenInput)
    happened = forms.ChoiceField(choices=[("yes", ""), ("no", "")], widget=forms.HiddenInput)
