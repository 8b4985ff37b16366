"""What can be allowed, and which role allows it."""

from collections.abc import Mapping

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Right(TextChoices):
    """The label completes the sentence "You may not ..."."""

    READ = "read", "see this team's models, services and releases"
    MODELS_WRITE = "models.write", "create and change models, versions and aliases"
    MODELS_EXPORT = "models.export", "publish versions elsewhere"
    ALIASES_PROTECTED = "aliases.protected", "protect aliases, or move protected ones"
    SERVICES_WRITE = "services.write", "create and change services"
    RELEASES_START = "releases.start", "start releases"
    RELEASES_APPROVE = "releases.approve", "approve or reject releases"
    RELEASES_OPERATE = "releases.operate", "pause, resume, abort or roll back releases"
    FLEET_OPERATE = "fleet.operate", "operate the fleet"
    FLEET_REPORT = "fleet.report", "report heartbeats for workers"
    PEOPLE_ADMIN = "people.admin", "manage people and roles"
    AUDIT_READ = "audit.read", "read the audit record"
    CODE_EXEMPT = "code.exempt", "exempt models whose versions carry code"
    SIGNATURES_ADMIN = "signatures.admin", "say whose signatures the team trusts and requires"
    WEBHOOKS_WRITE = "webhooks.write", "see and change webhooks"


class AccountKind(TextChoices):
    PERSON = "person", _("Person")
    MACHINE = "machine", _("Machine")


class Role(TextChoices):
    VIEWER = "viewer", "Viewer"
    DEVELOPER = "developer", "Developer"
    APPROVER = "approver", "Approver"
    OPERATOR = "operator", "Operator"
    ADMIN = "admin", "Admin"


class TokenState(TextChoices):
    ACTIVE = "active", "Active"
    EXPIRED = "expired", "Expired"
    REVOKED = "revoked", "Revoked"


class DeliveryState(TextChoices):
    PENDING = "pending", "Pending"
    FAILED = "failed", "Failed, to be tried again"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given_up", "Given up"


AUDIT_HEAD = "audit.head"
ONLY_BY_NAME = frozenset({AUDIT_HEAD})
"""Events that come as often as a clock ticks: only endpoints that name them are told."""

OPEN_DELIVERIES = (DeliveryState.PENDING, DeliveryState.FAILED)

_DEVELOPER = frozenset(
    {Right.READ, Right.MODELS_WRITE, Right.SERVICES_WRITE, Right.RELEASES_START, Right.RELEASES_OPERATE}
)

RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.DEVELOPER: _DEVELOPER,
    # A developer whose judgement the team trusts: colleagues approve each other, nobody approves himself.
    Role.APPROVER: _DEVELOPER
    | {Right.RELEASES_APPROVE, Right.ALIASES_PROTECTED, Right.MODELS_EXPORT, Right.AUDIT_READ},
    Role.OPERATOR: frozenset(
        {Right.READ, Right.RELEASES_OPERATE, Right.FLEET_OPERATE, Right.FLEET_REPORT, Right.AUDIT_READ}
    ),
    Role.ADMIN: frozenset(Right),
}

MACHINE_RIGHTS = frozenset({Right.FLEET_REPORT})
"""What machine accounts may do, everywhere, by their tokens; they are in no team."""
