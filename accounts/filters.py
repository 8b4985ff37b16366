"""What narrows the lists of people, tokens, deliveries and the audit record: over REST and on the pages."""

from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import AccountKind, DeliveryState, Right, TokenState
from common import clock, filters
from common.filters import ListFilter


def visible_teams(request: Any) -> QuerySet[Team]:
    return teams_where(of_request(request), Right.READ).order_by("name") if request else Team.objects.none()


def team(says: str, by: filters.By, *, shared: Any = None) -> Any:
    """Filter by a team that the reader may see."""
    unknown = _("There is no such team, or you may not see it.")
    return filters.named(_("Team"), says, visible_teams, by, unknown=unknown, shared=shared)


def _token_state(state: str) -> Q:
    if state == TokenState.REVOKED:
        return ~Q(revoked_at=None)
    lasts = Q(expires_at__gt=clock.now())
    return Q(revoked_at=None) & (lasts if state == TokenState.ACTIVE else ~lasts)


class PersonFilter(ListFilter):
    q = filters.search(
        "Words that must occur in the name or the email address.",
        _("Name, email"),
        ("username", "first_name", "last_name", "email"),
    )
    is_active = filters.truth(_("Active"), "Only accounts that may sign in, or only others.", "is_active")
    kind = filters.choice(_("Kind"), "People, or accounts of machines.", AccountKind.choices, "kind")


class TokenFilter(ListFilter):
    q = filters.search(
        "Words that must occur in the name, the prefix or the owner's name.",
        _("Name, owner"),
        ("name", "prefix", "owner__username"),
    )
    state = filters.choice(_("State"), "State of the token.", TokenState.choices, _token_state)


class DeliveryFilter(ListFilter):
    type = filters.text(
        _("Event"), "Part of the event type; case-insensitive.", "event__type__icontains", "release.ended"
    )
    state = filters.choice(_("State"), "State of the delivery.", DeliveryState.choices, "state")


class AuditFilter(ListFilter):
    q = filters.search(
        "Words that must occur in actor, action, resource, reason or address.",
        _("Any word"),
        ("actor", "action", "subject_label", "reason", "address"),
    )
    actor = filters.text(_("Actor"), "Name of who acted; case-insensitive.", "actor__iexact")
    action = filters.text(
        _("Action"), "Such as release.approve, or release.", "action__istartswith", "release.approve"
    )
    subject = filters.text(
        _("Resource"), "Part of the resource's name; case-insensitive.", "subject_label__icontains"
    )
    since = filters.moment(_("Since"), "From this moment on.", "at__gte")
    until = filters.moment(_("Until"), "Before this moment.", "at__lt")
