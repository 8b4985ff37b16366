from copy import copy
from typing import Any

from axes.utils import reset as forgive_failed_logins
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts import selectors
from accounts.errors import LastAdmin
from accounts.models import Membership, Team, User
from accounts.services.rights import require, require_everywhere
from accounts.states import AccountKind, Right, Role
from common.actor import Actor
from common.audit import record
from common.errors import Conflict, Invalid

_OWN_FIELDS = frozenset({"email", "first_name", "last_name", "language", "time_zone"})


def create_user(
    *,
    actor: Actor,
    username: str,
    password: str | None = None,
    email: str = "",
    first_name: str = "",
    last_name: str = "",
    is_superuser: bool = False,
    team: Team | None = None,
    role: Role | str = Role.VIEWER,
) -> User:
    """A new person, in `team` with `role` if one is given. Without a password only single sign-on works.

    A team's admin may add people to that team; only an administrator of the installation adds them to none,
    or makes them an administrator. Raises NotAllowed, ValidationError, Conflict when the name is taken.
    """
    if team is None or is_superuser:
        require_everywhere(actor, Right.PEOPLE_ADMIN)
    else:
        require(actor, Right.PEOPLE_ADMIN, team)
    user = User(
        username=User.normalize_username(username),
        email=User.objects.normalize_email(email),
        first_name=first_name,
        last_name=last_name,
        is_superuser=is_superuser,
        is_staff=is_superuser,
    )
    _set(user, password)
    user.full_clean()
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            record(actor, "user.create", subject=user, detail={"superuser": is_superuser})
            if team is not None:
                membership = Membership(user=user, team=team, role=role)
                membership.full_clean()
                membership.save(force_insert=True)
                record(
                    actor,
                    "member.add",
                    subject=user,
                    detail={"team": team.name, "role": role},
                    team_id=team.pk,
                )
    except IntegrityError:
        raise Conflict(_("There is a person named %(name)s already.") % {"name": username}) from None
    return user


def create_machine(
    *, actor: Actor, username: str, label: str = "", kind: AccountKind = AccountKind.MACHINE
) -> User:
    """An account that only holds tokens for a part of the system: nobody signs in as it.

    It may do what `MACHINE_RIGHTS` says of its kind. Raises NotAdministrator, ValidationError, Conflict when
    the name is taken.
    """
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    machine = User(username=User.normalize_username(username), first_name=label, kind=kind)
    machine.set_unusable_password()
    machine.full_clean(validate_unique=False, validate_constraints=False)
    try:
        with transaction.atomic():
            machine.save(force_insert=True)
            record(actor, "user.create", subject=machine, detail={"kind": machine.kind})
    except IntegrityError:
        raise Conflict(_("There is a person named %(name)s already.") % {"name": username}) from None
    return machine


def change_user(
    *, actor: Actor, user: User, expected: int | None = None, reason: str = "", **changes: Any
) -> User:
    """Change `email`, `first_name`, `last_name`, `language`, `time_zone` (one's own, too), `is_active`,
    `is_superuser`.

    Raises NotAllowed, Stale, ValidationError, Conflict for a machine, LastAdmin when nobody would be left
    who can sign in and administer the installation.
    """
    oneself = actor.user_id == user.pk and actor.token_id is None
    if not (oneself and changes.keys() <= _OWN_FIELDS):
        require_everywhere(actor, Right.PEOPLE_ADMIN)
    if unknown := changes.keys() - _OWN_FIELDS - {"is_active", "is_superuser"}:
        raise Invalid(fields={name: [_("This cannot be changed.")] for name in sorted(unknown)})
    _require_person(user, may_be_service=changes.keys() <= {"is_active", "first_name", "email"})
    changed = copy(user)
    for name, value in changes.items():
        setattr(changed, name, value)
    changed.full_clean(validate_unique=False, validate_constraints=False)
    if "is_superuser" in changes:
        changes["is_staff"] = changes["is_superuser"]
    with transaction.atomic():
        steps_down = not (changed.is_active and changed.is_superuser)
        administrators = selectors.administrators()
        if steps_down and administrators.filter(pk=user.pk).exists():
            # Locks every administrator's row, so that two who remove each other meet here.
            administrators.update(is_staff=F("is_superuser"))
            if not administrators.exclude(pk=user.pk).exists():
                raise LastAdmin(
                    _(
                        "Nobody but %(name)s can sign in and administer this installation. "
                        "Make another person an administrator first."
                    )
                    % {"name": user}
                )
        if "is_superuser" in changes:
            changes["admin_by_rule"] = False
        user.change(expected=expected, **changes)
        shown = {name: value for name, value in changes.items() if name not in ("is_staff", "admin_by_rule")}
        record(actor, "user.change", subject=user, reason=reason, detail=shown)
    return user


def set_password(*, actor: Actor, user: User, password: str) -> None:
    """Give someone a new password: an administrator's help for who has forgotten it, or is locked out.

    Ends their sessions, and a lockout. Raises NotAdministrator, Invalid, Conflict for a machine.
    """
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    _require_person(user)
    _set(user, password)
    with transaction.atomic():
        user.change(password=user.password)
        forgive_failed_logins(username=user.username.casefold())
        record(actor, "user.set_password", subject=user)


def _require_person(user: User, *, may_be_service: bool = False) -> None:
    if user.is_machine:
        raise Conflict(
            _("%(name)s is a machine account, which Slipway manages. Revoke its tokens instead.")
            % {"name": user}
        )
    if not user.is_person and not may_be_service:
        raise Conflict(_("%(name)s is a service account: nobody signs in as it.") % {"name": user})


def _set(user: User, password: str | None) -> None:
    if password is not None:
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise Invalid(fields={"password": error.messages}) from None
    user.set_password(password)


def create_service_account(
    *, actor: Actor, username: str, team: Team, role: Role | str, description: str = ""
) -> User:
    """An account of a program, in a team with a role as people are; nobody signs in as it.

    Raises NotAllowed, ValidationError, Conflict when the name is taken.
    """
    require(actor, Right.PEOPLE_ADMIN, team)
    account = User(
        username=User.normalize_username(username), first_name=description, kind=AccountKind.SERVICE
    )
    account.set_unusable_password()
    account.full_clean(validate_unique=False, validate_constraints=False)
    try:
        with transaction.atomic():
            account.save(force_insert=True)
            record(actor, "user.create", subject=account, detail={"kind": account.kind}, team_id=team.pk)
            membership = Membership(user=account, team=team, role=role)
            membership.full_clean()
            membership.save(force_insert=True)
            detail = {"team": team.name, "role": str(role)}
            record(actor, "member.add", subject=account, detail=detail, team_id=team.pk)
    except IntegrityError:
        raise Conflict(_("There is a person named %(name)s already.") % {"name": username}) from None
    return account
