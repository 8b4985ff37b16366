"""Approvals while somebody is away: another person gives them in their place."""

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team, User
from accounts.selectors import may, people_with
from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Conflict, Invalid
from common.reconcile import kernel
from releases.models import ApprovalDelegation


def delegate_approvals(
    *,
    actor: Actor,
    team: Team,
    delegate: User,
    person: User | None = None,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    reason: str = "",
) -> ApprovalDelegation:
    """Let `delegate` approve in the place of `person` (None: the actor). An admin may do it for others.

    Raises NotAllowed, Invalid.
    """
    if person is None:
        if actor.user_id is None:
            raise Invalid(fields={"person": [_("Name the person who is away.")]})
        person = User.objects.get(pk=actor.user_id)
    if person.pk == actor.user_id:
        require(actor, Right.RELEASES_APPROVE, team)
    else:
        require(actor, Right.PEOPLE_ADMIN, team)
    now = kernel.clock()
    faults: dict[str, list[str]] = {}
    if not people_with(Right.RELEASES_APPROVE, team).filter(pk=person.pk).exists():
        told = _("%(person)s may not approve in team %(team)s.")
        faults["person"] = [told % {"person": person, "team": team}]
    if delegate.pk == person.pk:
        faults["delegate"] = [_("Name another person.")]
    elif not delegate.memberships.filter(team=team).exists():
        told = _("%(person)s is not a member of team %(team)s.")
        faults["delegate"] = [told % {"person": delegate, "team": team}]
    if ends_at is not None and ends_at <= (starts_at or now):
        faults["ends_at"] = [_("Give an end after the start, and in the future.")]
    if faults:
        raise Invalid(fields=faults)
    with transaction.atomic():
        row = ApprovalDelegation.objects.create(
            team=team,
            person=person,
            delegate=delegate,
            starts_at=starts_at or now,
            ends_at=ends_at,
            reason=reason,
            created_by=actor.name,
            created_at=now,
        )
        audit.record(actor, "delegation.create", subject=row, team_id=team.pk, reason=reason)
    return row


def end_delegation(row: ApprovalDelegation, *, actor: Actor, reason: str = "") -> ApprovalDelegation:
    """End it now: by either of the two, or an admin. Raises NotAllowed, Conflict when it has ended."""
    if actor.user_id not in (row.person_id, row.delegate_id) or not may(actor, Right.READ, row.team):
        require(actor, Right.PEOPLE_ADMIN, row.team)
    with transaction.atomic():
        ended = ApprovalDelegation.objects.filter(pk=row.pk, ended_at=None)
        if not ended.update(ended_at=kernel.clock()):
            raise Conflict(_("It has ended already."))
        audit.record(actor, "delegation.end", subject=row, team_id=row.team_id, reason=reason)
    row.refresh_from_db()
    return row
