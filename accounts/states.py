"""What can be allowed, and which role allows it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.db.models import TextChoices
from django.db.models.enums import ChoicesType
from django.utils.translation import gettext_lazy as _

from accounts.declared_rights import AccountKind as AccountKind
from accounts.declared_rights import Role as Role
from accounts.declared_rights import declared_rights

SPECS = tuple(declared_rights())


if TYPE_CHECKING:
    from django.db.models.enums import _TextChoicesType

    class _Members(_TextChoicesType):
        """The members come from the apps: to the type checker each name is a `Right`."""

        def __getattr__(cls, name: str) -> "Right": ...

else:
    _Members = ChoicesType


class Right(TextChoices, metaclass=_Members):
    """The label completes the sentence "You may not ..."."""

    vars().update({spec.name: (spec.value, spec.label) for spec in SPECS})


SERVICE_RIGHTS = frozenset(Right(spec.value) for spec in SPECS if spec.is_over_services)
"""What a token that is limited to services may have: rights over a service, and reading beside it."""


NOT_PEOPLE = (AccountKind.SERVICE, AccountKind.MACHINE, AccountKind.DIRECTORY)
"""They hold tokens, and nobody signs in as them."""


class RoleSource(TextChoices):
    """Who has put a person into a team."""

    MANUAL = "manual", _("By hand")
    RULE = "rule", _("By a group rule")


class TokenState(TextChoices):
    ACTIVE = "active", _("Active")
    EXPIRED = "expired", _("Expired")
    REVOKED = "revoked", _("Revoked")


class DeliveryState(TextChoices):
    PENDING = "pending", _("Pending")
    FAILED = "failed", _("Failed, will be retried")
    DELIVERED = "delivered", _("Delivered")
    GIVEN_UP = "given_up", _("Given up")


WEBHOOK_TEST = "webhook.test"
"""What the test button sends."""
AUDIT_HEAD = "audit.head"
ONLY_BY_NAME = frozenset({AUDIT_HEAD})
"""Events that come as often as a clock ticks: only endpoints that name them are told."""

OPEN_DELIVERIES = (DeliveryState.PENDING, DeliveryState.FAILED)

RIGHTS: Mapping[Role, frozenset[Right]] = {
    role: frozenset(Right(spec.value) for spec in SPECS if role in (*spec.roles, Role.ADMIN)) for role in Role
}
MACHINE_RIGHTS: Mapping[str, frozenset[Right]] = {
    kind: frozenset(Right(spec.value) for spec in SPECS if kind in spec.kinds)
    for kind in (AccountKind.MACHINE, AccountKind.DIRECTORY)
}
"""What accounts of these kinds may do, everywhere, by their tokens; they are in no team."""


class LeastSeverity(TextChoices):
    """Which alerts and GPU findings an endpoint is sent; other events have no severity."""

    ANY = "any", _("Any")
    WARNING = "warning", _("Warning and worse")
    CRITICAL = "critical", _("Critical only")


SEVERITIES_FROM: Mapping[str, tuple[str, ...]] = {
    LeastSeverity.ANY: ("info", "warning", "critical", "fatal"),
    LeastSeverity.WARNING: ("warning", "critical", "fatal"),
    LeastSeverity.CRITICAL: ("critical", "fatal"),
}


class WebhookFormat(TextChoices):
    """Format of the messages that a receiver takes."""

    STANDARD = "standard", _("Standard Webhooks (signed JSON)")
    SLACK = "slack", "Slack"  # untranslated
    FEISHU = "feishu", "Feishu"  # untranslated
    DINGTALK = "dingtalk", "DingTalk"  # untranslated
    WECOM = "wecom", "WeCom"  # untranslated
    TEAMS = "teams", "Microsoft Teams"  # untranslated
    ALERTMANAGER = "alertmanager", "Alertmanager"  # untranslated
    PAGERDUTY = "pagerduty", "PagerDuty"  # untranslated
    EMAIL = "email", _("E-mail")
