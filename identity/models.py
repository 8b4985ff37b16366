from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.states import Role
from common import clock
from common.reconcile import Singleton
from common.revisions import Revised
from identity.patterns import MAX_PATTERN

MAX_NAME_ID = 255


class GroupRule(Revised):
    """Members of a provider's group have a role in a team, or administer the installation."""

    pattern = models.CharField(max_length=MAX_PATTERN)
    """A group's name as the provider sends it; `*` stands for any characters."""
    team = models.ForeignKey("accounts.Team", null=True, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=20, blank=True, choices=Role.choices)
    """Without a team: empty, they are administrators of the installation."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200, editable=False)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(team=None, role="") | Q(team__isnull=False, role__in=Role.values),
                name="group_rule_gives_one_thing",
            ),
            models.UniqueConstraint(fields=["pattern", "team"], name="group_rule_once"),
            models.UniqueConstraint(
                fields=["pattern"], name="group_rule_administrator_once", condition=Q(team=None)
            ),
        ]

    def __str__(self) -> str:
        return self.pattern


class Identity(models.Model):
    """A person as the identity provider knows them, and what it said of them last."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    provider = models.CharField(max_length=50)
    subject = models.CharField(max_length=255)
    """The claim `sub`; empty until the first sign-in."""
    external_id = models.CharField(max_length=255, blank=True, db_index=True)
    """The provider's name for them in SCIM; empty: not provisioned."""
    deleted_at = models.DateTimeField(null=True)
    """The provider has deleted them by SCIM."""
    groups = models.JSONField(default=list)
    """Names of groups by the last sign-in or check."""
    signed_in_at = models.DateTimeField(null=True)
    sealed_refresh_token = models.TextField(blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, db_index=True)
    """When the provider last accepted or refused the refresh token."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["provider", "subject"], name="identity_once", condition=~Q(subject="")
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} at {self.provider}"


class ProviderSession(models.Model):
    """A browser session that began at the provider, by which it can be ended from there."""

    identity = models.ForeignKey(Identity, on_delete=models.CASCADE, related_name="sessions")
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    """As `django_session` holds it: hashed."""
    sid = models.CharField(max_length=255, blank=True, db_index=True)
    """The provider's name for it; empty when it gives none."""
    name_id = models.CharField(max_length=MAX_NAME_ID, blank=True, db_index=True)
    """By which a SAML provider names the person when it ends the session."""
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return f"session of {self.identity}"


class ProviderCheck(Singleton):
    """Row by which Slipway asks the provider whether it still accepts the people who have signed in."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "check of the identity provider"

    @classmethod
    def seed(cls, now: datetime) -> Mapping[str, Any]:
        return {"next_at": now}


class UsedAssertion(models.Model):
    """A signed token that must not be taken twice, until it expires by itself."""

    issuer = models.CharField(max_length=500)
    jti = models.CharField(max_length=255)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["issuer", "jti"], name="assertion_used_once")
        ]

    def __str__(self) -> str:
        return self.jti


class RefusedExchange(models.Model):
    """The count of refused tokens of one address for one reason since the last audit record of it."""

    address = models.CharField(max_length=45)
    reason = models.CharField(max_length=500)
    account = models.CharField(max_length=150)
    count = models.PositiveIntegerField(default=0)
    since = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["address", "reason"], name="refused_exchange_once")
        ]

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class ProvisionedGroup(models.Model):
    """A group that the identity provider keeps here by SCIM; group rules read it as those of a sign-in."""

    name = models.CharField(max_length=255, unique=True)
    external_id = models.CharField(max_length=255, blank=True, db_index=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="+")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return self.name


class FederatedCredential(Revised):
    """A rule of which CI tokens a service account accepts: those of this issuer, for this audience, about
    this subject, with these claims.
    """

    account = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    issuer = models.CharField(max_length=500)
    audience = models.CharField(max_length=500)
    subject = models.CharField(max_length=MAX_PATTERN, blank=True)
    """Pattern; empty: any, and the claims decide."""
    claims = models.JSONField(default=dict, blank=True)
    """Name of a claim to a pattern of its value."""
    scopes = models.JSONField(default=list)
    """Values of `Right`, sorted: of the token that is given."""
    minutes = models.PositiveIntegerField(default=30)
    """That the token lives."""
    is_single_use = models.BooleanField(default=False)
    """A token of the CI system is taken once."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["account", "name"], name="federated_credential_once")
        ]

    def __str__(self) -> str:
        return self.name
