"""What an identity provider decides of people: roles by its groups, and whose sessions and tokens work."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts import selectors
from accounts.errors import LastAdmin
from accounts.models import ApiToken, Membership, Team, User
from accounts.services.rights import require_everywhere
from accounts.states import Right, Role, RoleSource
from common import clock
from common.actor import Actor
from common.audit import record
from common.errors import Conflict


class ProvisionedRoles(NamedTuple):
    """The roles that group rules give one person."""

    roles: Mapping[int, Role]
    """By team id."""
    administrator: bool = False


def apply_given(*, actor: Actor, user: User, given: ProvisionedRoles, reason: str) -> None:
    """Make the person's memberships of rules those in `given`. What people have given stays as it is.

    The last administrator of the installation stays one, which the audit record says.
    """
    with transaction.atomic():
        # Locks the person's row: two sign-ins at once meet here.
        User.objects.filter(pk=user.pk).update(revision=F("revision"))
        present = {one.team_id: one for one in Membership.objects.filter(user=user).select_related("team")}
        for team_id, membership in present.items():
            if membership.source == RoleSource.RULE and team_id not in given.roles:
                Membership.objects.filter(pk=membership.pk).delete()
                _record(actor, "member.remove", user, membership.team, membership.role, reason)
        for team_id, role in given.roles.items():
            _give(actor, user, present.get(team_id), team_id, role, reason)
        _administrate(actor, user, given.administrator, reason)


def _give(
    actor: Actor, user: User, present: Membership | None, team_id: int, role: Role, reason: str
) -> None:
    if present is None:
        team = Team.objects.filter(pk=team_id).first()
        if team is None:
            return
        Membership.objects.create(user=user, team=team, role=role, source=RoleSource.RULE)
        _record(actor, "member.add", user, team, role, reason)
    elif present.source == RoleSource.RULE and present.role != role:
        present.change(role=role)
        _record(actor, "member.change", user, present.team, role, reason)


def _administrate(actor: Actor, user: User, wanted: bool, reason: str) -> None:
    now = User.objects.values("is_superuser", "admin_by_rule").get(pk=user.pk)
    if wanted and not now["is_superuser"]:
        user.change(is_superuser=True, is_staff=True, admin_by_rule=True)
        record(actor, "user.change", subject=user, reason=reason, detail={"is_superuser": True})
    elif not wanted and now["admin_by_rule"]:
        if not selectors.administrators().exclude(pk=user.pk).exists():
            said = "The last administrator stays one, though no rule says so any more."
            record(actor, "user.change", subject=user, reason=said, detail={"is_superuser": True})
            return
        user.change(is_superuser=False, is_staff=False, admin_by_rule=False)
        record(actor, "user.change", subject=user, reason=reason, detail={"is_superuser": False})


def _record(actor: Actor, action: str, user: User, team: Team, role: str, reason: str) -> None:
    detail = {"team": team.name, "role": str(role), "source": RoleSource.RULE.value}
    if (action != "member.add" and role == Role.ADMIN) or action == "member.remove":
        left = Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True)
        if not left.exists():
            detail["warning"] = "The team has no admin now."
    record(actor, action, subject=user, reason=reason, detail=detail, team_id=team.pk)


def end_sessions(*, actor: Actor, user: User, reason: str = "") -> None:
    """End a person's sessions in every browser; tokens stay valid. Raises NotAdministrator for somebody
    else's.
    """
    if actor.user_id != user.pk or actor.token_id is not None:
        require_everywhere(actor, Right.PEOPLE_ADMIN)
    with transaction.atomic():
        user.change(session_epoch=F("session_epoch") + 1)
        record(actor, "session.end_all", subject=user, reason=reason)


def suspend(*, actor: Actor, user: User, reason: str) -> bool:
    """The provider refuses them: their sessions end, their tokens are refused until they sign in there
    again. False: they are suspended already. The last administrator is not suspended: raises LastAdmin.
    """
    with transaction.atomic():
        others = selectors.administrators().exclude(pk=user.pk)
        if selectors.administrators().filter(pk=user.pk).exists() and not others.exists():
            raise LastAdmin(
                _("Nobody but %(name)s can sign in and administer this installation.") % {"name": user}
            )
        found = User.objects.filter(pk=user.pk, suspended_at=None)
        if not found.update(
            suspended_at=clock.now(), session_epoch=F("session_epoch") + 1, revision=F("revision") + 1
        ):
            return False
        record(actor, "user.suspend", subject=user, reason=reason)
    user.refresh_from_db(fields=["suspended_at", "session_epoch", "revision"])
    return True


def resume(*, actor: Actor, user: User, reason: str = "") -> bool:
    """Undo `suspend`. Returns False if the person was not suspended."""
    with transaction.atomic():
        found = User.objects.filter(pk=user.pk).exclude(suspended_at=None)
        if not found.update(suspended_at=None, revision=F("revision") + 1):
            return False
        record(actor, "user.resume", subject=user, reason=reason)
    user.refresh_from_db(fields=["suspended_at", "revision"])
    return True


def create_person(
    *,
    actor: Actor,
    username: str,
    email: str = "",
    first_name: str = "",
    last_name: str = "",
    is_active: bool = True,
) -> User:
    """Somebody whom a directory provisions: without a password or a team. Raises NotAllowed, Conflict,
    ValidationError.
    """
    require_everywhere(actor, Right.PEOPLE_PROVISION)
    user = User(
        username=User.normalize_username(username),
        email=User.objects.normalize_email(email),
        first_name=first_name,
        last_name=last_name,
        is_active=is_active,
    )
    user.set_unusable_password()
    user.full_clean(validate_unique=False, validate_constraints=False)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            record(actor, "user.create", subject=user, detail={"is_active": is_active})
    except IntegrityError:
        raise Conflict(_("There is a person named %(name)s already.") % {"name": username}) from None
    return user


def change_person(*, actor: Actor, user: User, **changed: Any) -> None:
    """Change `username`, `email`, `first_name`, `last_name`, `is_active`. Who is deactivated has no session
    and no token from that moment.

    Raises NotAllowed, Conflict, ValidationError, LastAdmin.
    """
    require_everywhere(actor, Right.PEOPLE_PROVISION)
    found = {name: value for name, value in changed.items() if getattr(user, name) != value}
    if not found:
        return
    ends = found.get("is_active") is False
    if ends:
        _keep_an_administrator(user)
    for name, value in found.items():
        setattr(user, name, value)
    user.full_clean(validate_unique=False, validate_constraints=False)
    epoch: dict[str, Any] = {"session_epoch": F("session_epoch") + 1} if ends else {}
    try:
        with transaction.atomic():
            user.change(**found, **epoch)
            record(actor, "user.change", subject=user, detail=found)
    except IntegrityError:
        raise Conflict(_("There is a person named %(name)s already.") % {"name": user.username}) from None


def retire(*, actor: Actor, user: User) -> None:
    """Retire a person whom the directory deleted.

    The account stays for the record, inactive, in no team, its tokens revoked, and its name is free for
    somebody
    else. Raises NotAllowed, LastAdmin.
    """
    require_everywhere(actor, Right.PEOPLE_PROVISION)
    _keep_an_administrator(user)
    with transaction.atomic():
        record(actor, "user.delete", subject=user)
        ApiToken.objects.filter(owner=user, revoked_at=None).update(revoked_at=clock.now())
        Membership.objects.filter(user=user).delete()
        user.set_unusable_password()
        user.change(
            username=f"{user.username[:120]}+deleted-{user.pk}",
            password=user.password,
            is_active=False,
            is_superuser=False,
            is_staff=False,
            admin_by_rule=False,
            session_epoch=F("session_epoch") + 1,
        )


def _keep_an_administrator(user: User) -> None:
    found = selectors.administrators()
    if found.filter(pk=user.pk).exists() and not found.exclude(pk=user.pk).exists():
        raise LastAdmin(
            _("Nobody but %(name)s can sign in and administer this installation.") % {"name": user}
        )
