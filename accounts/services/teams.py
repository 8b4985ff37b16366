from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, RestrictedError
from django.utils.translation import gettext as _

from accounts.errors import LastAdmin, TeamInUse
from accounts.models import Membership, Team, User
from accounts.services.rights import require, require_everywhere
from accounts.states import Right, Role, RoleSource
from common.actor import Actor
from common.audit import record
from common.errors import Conflict, Missing
from common.sentences import listed, row_kind


def create_team(*, actor: Actor, name: str, description: str = "") -> Team:
    """Raises NotAdministrator, ValidationError, Conflict when the name is taken."""
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    team = Team(name=name, description=description)
    team.full_clean()
    try:
        with transaction.atomic():
            team.save(force_insert=True)
            record(actor, "team.create", subject=team, team_id=team.pk)
    except IntegrityError:
        raise Conflict(_("There is a team named %(name)s already.") % {"name": name}) from None
    return team


def change_team(*, actor: Actor, team: Team, description: str, expected: int | None = None) -> Team:
    """Raises NotAllowed, Stale, ValidationError. The name stays: addresses and records hold it."""
    require(actor, Right.PEOPLE_ADMIN, team)
    team.description = description
    team.clean_fields()
    with transaction.atomic():
        team.change(expected=expected, description=description)
        record(actor, "team.change", subject=team, detail={"description": description}, team_id=team.pk)
    return team


def delete_team(*, actor: Actor, team: Team, expected: int | None = None, reason: str = "") -> None:
    """Raises NotAdministrator, Stale, TeamInUse while it owns models or services."""
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    try:
        with transaction.atomic():
            team.change(expected=expected)
            record(actor, "team.delete", subject=team, reason=reason, team_id=team.pk)
            Team.objects.filter(pk=team.pk).delete()
    except (ProtectedError, RestrictedError) as error:
        owned = error.protected_objects if isinstance(error, ProtectedError) else error.restricted_objects
        kinds = sorted({row_kind(row) for row in owned})
        raise TeamInUse(
            _("Team %(name)s still owns %(kinds)s. Delete or move them first.")
            % {"name": team.name, "kinds": listed(kinds)}
        ) from None


def set_role(
    *,
    actor: Actor,
    user: User,
    team: Team,
    role: Role | str,
    expected: int | None = None,
    reason: str = "",
) -> Membership:
    """Put someone into a team, or change the role there.

    Raises NotAllowed, Stale when the membership has not the `expected` revision, ValidationError for an
    unknown role, Conflict for a machine, LastAdmin when the team would be left without one.
    """
    require(actor, Right.PEOPLE_ADMIN, team)
    if user.is_machine:
        raise Conflict(
            _("%(name)s is a machine account, which is in no team. Name a person.") % {"name": user}
        )
    membership = Membership(user=user, team=team, role=role)
    membership.full_clean(validate_unique=False, validate_constraints=False)
    with transaction.atomic():
        # Locks the team's row, so that two admins who demote each other meet here.
        team.change()
        present = Membership.objects.filter(user=user, team=team).first()
        if present is None:
            if expected is not None:
                raise Missing(_("%(name)s is no longer in team %(team)s.") % {"name": user, "team": team})
            membership.save(force_insert=True)
        else:
            was_admin = present.role == Role.ADMIN
            present.change(expected=expected, role=role, source=RoleSource.MANUAL)
            membership = present
            if was_admin:
                _keep_an_admin(team)
        record(
            actor,
            "member.change" if present else "member.add",
            subject=user,
            reason=reason,
            detail={"team": team.name, "role": str(role)},
            team_id=team.pk,
        )
    return membership


def remove_member(
    *, actor: Actor, membership: Membership, expected: int | None = None, reason: str = ""
) -> None:
    """Take someone out of a team; one may leave by oneself. Raises NotAllowed, Stale, LastAdmin."""
    team, user = membership.team, membership.user
    if actor.user_id != user.pk or actor.token_id is not None:
        require(actor, Right.PEOPLE_ADMIN, team)
    with transaction.atomic():
        team.change()
        membership.change(expected=expected)
        Membership.objects.filter(pk=membership.pk).delete()
        if membership.role == Role.ADMIN:
            _keep_an_admin(team)
        detail = {"team": team.name, "role": membership.role}
        record(actor, "member.remove", subject=user, reason=reason, detail=detail, team_id=team.pk)


def _keep_an_admin(team: Team) -> None:
    if not Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True).exists():
        said = _("Team %(name)s would be left without an admin. Make another member an admin first.")
        raise LastAdmin(said % {"name": team.name})
