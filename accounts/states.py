"""What can be allowed, and which role allows it."""

from collections.abc import Mapping

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Right(TextChoices):
    """The label completes the sentence "You may not ..."."""

    READ = "read", _("see this team's models, services and releases")
    MODELS_WRITE = "models.write", _("create and change models, versions and aliases")
    MODELS_EXPORT = "models.export", _("export versions")
    ALIASES_PROTECTED = "aliases.protected", _("protect aliases, or move protected ones")
    SERVICES_WRITE = "services.write", _("create and change services")
    RELEASES_START = "releases.start", _("start releases")
    RELEASES_APPROVE = "releases.approve", _("approve or reject releases")
    RELEASES_OPERATE = "releases.operate", _("pause, resume, abort or roll back releases")
    RELEASES_BYPASS = "releases.bypass", _("bypass or lower the release policy")
    FLEET_OPERATE = "fleet.operate", _("operate the fleet")
    FLEET_REPORT = "fleet.report", _("report heartbeats for workers")
    FLEET_EVENTS = "fleet.events", _("report events of the machines' providers")
    FLEET_FETCH = "fleet.fetch", _("fetch model files for workers")
    PEOPLE_ADMIN = "people.admin", _("manage people and roles")
    PEOPLE_PROVISION = "people.provision", _("provision people and groups by SCIM")
    AUDIT_READ = "audit.read", _("read the audit log")
    CODE_EXEMPT = "code.exempt", _("exempt models from the custom-code policy")
    SIGNATURES_ADMIN = "signatures.admin", _("manage trusted signing keys and the signature policy")
    WEBHOOKS_WRITE = "webhooks.write", _("see and change webhooks")


SERVICE_RIGHTS = frozenset(
    {
        Right.READ,
        Right.SERVICES_WRITE,
        Right.RELEASES_START,
        Right.RELEASES_APPROVE,
        Right.RELEASES_OPERATE,
    }
)
"""What a token that is limited to services may have: rights over a service, and reading beside it."""


class AccountKind(TextChoices):
    PERSON = "person", _("Person")
    SERVICE = "service", _("Service account")
    MACHINE = "machine", _("Machine")
    DIRECTORY = "directory", _("Directory")


NOT_PEOPLE = (AccountKind.SERVICE, AccountKind.MACHINE, AccountKind.DIRECTORY)
"""They hold tokens, and nobody signs in as them."""


class RoleSource(TextChoices):
    """Who has put a person into a team."""

    MANUAL = "manual", _("By hand")
    RULE = "rule", _("By a group rule")


class Role(TextChoices):
    VIEWER = "viewer", _("Viewer")
    DEVELOPER = "developer", _("Developer")
    APPROVER = "approver", _("Approver")
    OPERATOR = "operator", _("Operator")
    ADMIN = "admin", _("Admin")


class TokenState(TextChoices):
    ACTIVE = "active", _("Active")
    EXPIRED = "expired", _("Expired")
    REVOKED = "revoked", _("Revoked")


class DeliveryState(TextChoices):
    PENDING = "pending", _("Pending")
    FAILED = "failed", _("Failed, will be retried")
    DELIVERED = "delivered", _("Delivered")
    GIVEN_UP = "given_up", _("Given up")


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
        {
            Right.READ,
            Right.RELEASES_OPERATE,
            Right.FLEET_OPERATE,
            Right.FLEET_REPORT,
            Right.FLEET_EVENTS,
            Right.AUDIT_READ,
        }
    ),
    Role.ADMIN: frozenset(Right),
}

MACHINE_RIGHTS: Mapping[str, frozenset[Right]] = {
    AccountKind.MACHINE: frozenset({Right.FLEET_REPORT, Right.FLEET_FETCH}),
    AccountKind.DIRECTORY: frozenset({Right.PEOPLE_PROVISION}),
}
"""What accounts of these kinds may do, everywhere, by their tokens; they are in no team."""
