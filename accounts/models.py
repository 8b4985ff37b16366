from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.states import (
    MACHINE_RIGHTS,
    NOT_PEOPLE,
    AccountKind,
    Right,
    Role,
    RoleSource,
    TokenState,
)
from accounts.webhook_models import WebhookDelivery as WebhookDelivery
from accounts.webhook_models import WebhookEndpoint as WebhookEndpoint
from accounts.webhook_models import WebhookEvent as WebhookEvent
from common import clock
from common.characters import hidden
from common.hosts import MOST_CHARACTERS
from common.reconcile import Reconciled, Singleton
from common.revisions import Revised
from common.texts import hidden_fault

team_name = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
    gettext_lazy("Use lower-case letters, digits and hyphens; start and end with a letter or digit."),
)


def known_time_zone(name: str) -> None:
    """Raises ValidationError."""
    if name not in available_timezones():
        raise ValidationError(
            _("There is no time zone named %(name)s. Use one such as Asia/Shanghai.") % {"name": name}
        )


class User(AbstractUser, Revised):
    """A person or a service account, whose teams say what they may do, or a machine, which only holds
    tokens. Only people sign in."""

    kind = models.CharField(
        max_length=10, choices=AccountKind.choices, default=AccountKind.PERSON, editable=False
    )

    language = models.CharField(
        gettext_lazy("Language"), max_length=16, blank=True, choices=settings.LANGUAGES
    )
    """Empty: what the browser asks for."""
    time_zone = models.CharField(
        gettext_lazy("Time zone"), max_length=64, blank=True, validators=[known_time_zone]
    )
    """A name of the IANA database; empty: the browser's."""
    session_epoch = models.PositiveIntegerField(default=0, editable=False)
    """Rises when all sessions of the person end."""
    suspended_at = models.DateTimeField(null=True, editable=False)
    """Since when the identity provider has refused them: neither sessions nor tokens work until they sign in
    there again."""
    admin_by_rule = models.BooleanField(default=False, editable=False)
    """A group rule has made them an administrator of the installation, and takes it away again."""

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            # Two names that differ in case only are one name to the eye, to the login and to the lockout.
            models.UniqueConstraint(
                Lower("username"),
                name="user_name_any_case",
                violation_error_message=gettext_lazy("This name is taken."),
            ),
            models.CheckConstraint(
                condition=Q(kind=AccountKind.PERSON)
                | Q(kind__in=NOT_PEOPLE, is_superuser=False, is_staff=False),
                name="only_people_administer",
            ),
        ]

    def clean(self) -> None:
        super().clean()
        faults = {
            name: hidden_fault(found)
            for name in ("first_name", "last_name")
            if (found := hidden(getattr(self, name)))
        }
        if faults:
            raise ValidationError(faults)

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """Return the value that a session of this person must hold; signed, as Django's own."""
        held = f"{self.password}:{self.session_epoch}"
        key_salt = "accounts.models.User.get_session_auth_hash"
        return salted_hmac(key_salt, held, secret=secret, algorithm="sha256").hexdigest()

    @property
    def is_person(self) -> bool:
        return self.kind == AccountKind.PERSON

    @property
    def works(self) -> bool:
        """Its sessions and tokens are accepted."""
        return self.is_active and self.suspended_at is None

    @property
    def is_machine(self) -> bool:
        """Whether this account is a machine's: it cannot sign in, and its tokens may hold `MACHINE_RIGHTS`
        alone.
        """
        return self.kind in MACHINE_RIGHTS


class Team(Revised):
    """The owner of models and services."""

    name = models.CharField(max_length=63, unique=True, validators=[team_name])
    description = models.TextField(blank=True, max_length=2000)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return self.name


class Membership(Revised):
    """A person's one role in a team."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices)
    source = models.CharField(
        max_length=10, choices=RoleSource.choices, default=RoleSource.MANUAL, editable=False
    )
    """What a group rule gave, a group rule changes and takes away; what a person gave stays."""
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "team"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
            models.CheckConstraint(condition=Q(source__in=RoleSource.values), name="membership_source_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}: {self.role}"


class ApiToken(models.Model):
    """A key for programs, kept as a hash. It may do what its owner may, within its scopes and its team."""

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(default=list)
    """Values of `Right`, sorted."""
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, blank=True, related_name="tokens")
    """The one team that it works in; None: every team of its owner."""
    services = models.JSONField(default=list, blank=True)
    """Names of the services, sorted, that it changes and releases; empty: every one. It reads beside them."""
    is_exchanged = models.BooleanField(default=False, editable=False)
    """Given for a token of a CI system: it lives for minutes and is forgotten soon after."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return f"{self.name} (slp_{self.prefix}_...)"

    @property
    def rights(self) -> frozenset[Right]:
        known = frozenset(Right.values)
        return frozenset(Right(scope) for scope in self.scopes if scope in known)

    @property
    def state(self) -> TokenState:
        if self.revoked_at is not None:
            return TokenState.REVOKED
        return TokenState.ACTIVE if self.expires_at > clock.now() else TokenState.EXPIRED


class AuditExport(Singleton):
    """The export of the audit record's heads, and the last head that was exported."""

    seq = models.PositiveBigIntegerField(default=0, editable=False)
    hash = models.CharField(max_length=64, blank=True, editable=False)
    exported_at = models.DateTimeField(null=True, editable=False)

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return f"head {self.seq} of the audit record"

    @classmethod
    def seed(cls, now: datetime) -> Mapping[str, Any]:
        return {"next_at": now + timedelta(seconds=settings.SLIPWAY_AUDIT_EXPORT_SECONDS)}


class AuditOutput(Reconciled):
    """A place that the audit record is written to beside the database, and how far it has come."""

    place = models.CharField(max_length=500, editable=False)
    host = models.CharField(max_length=MOST_CHARACTERS, blank=True, default="", editable=False)
    """Whose file or socket it is; empty: one of the network, for all hosts."""
    seq = models.PositiveBigIntegerField(default=0, editable=False)
    """The last entry that was delivered."""
    sent_at = models.DateTimeField(null=True, editable=False)

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["place", "host"], name="accounts_audit_output_once")
        ]

    def __str__(self) -> str:
        return f"{self.place} on {self.host}" if self.host else self.place
