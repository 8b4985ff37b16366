from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils import timezone

from accounts.states import Right, Role, TokenState
from common.revisions import Revised

team_name = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
    "Use lower-case letters, digits and hyphens; start and end with a letter or digit.",
)


class User(AbstractUser, Revised):
    """A person, or a robot that holds tokens. The email is optional; teams say what they may do."""

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            # Two names that differ in case only are one name to the eye, to the login and to the lockout.
            models.UniqueConstraint(
                Lower("username"), name="user_name_any_case", violation_error_message="This name is taken."
            )
        ]


class Team(Revised):
    """The owner of models and services."""

    name = models.CharField(max_length=63, unique=True, validators=[team_name])
    description = models.TextField(blank=True, max_length=2000)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.name


class Membership(Revised):
    """A person's one role in a team."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "team"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
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
    created_at = models.DateTimeField(default=timezone.now, editable=False)
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
        return TokenState.ACTIVE if self.expires_at > timezone.now() else TokenState.EXPIRED
