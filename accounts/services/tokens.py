import logging
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts import keys
from accounts.errors import InvalidToken, OutOfScope
from accounts.models import ApiToken, Team, User
from accounts.services.rights import require_everywhere
from accounts.states import MACHINE_RIGHTS, SERVICE_RIGHTS, Right, TokenState
from common import clock
from common.actor import Actor
from common.audit import record
from common.characters import hidden
from common.errors import Invalid, Missing, NotAllowed
from common.prepared import prepared
from common.texts import hidden_fault

logger = logging.getLogger(__name__)

LONGEST = timedelta(days=366)
USUAL = timedelta(days=90)
MAX_SERVICES = 50
_SERVICE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MARK_USE_EVERY = timedelta(minutes=1)


class IssuedToken(NamedTuple):
    token: ApiToken
    text: str
    """The whole token: exists here and at whom it is shown to, once."""


def create_token(
    *,
    actor: Actor,
    name: str,
    scopes: Collection[str],
    expires_at: datetime | None = None,
    team: Team | None = None,
    services: Collection[str] = (),
    owner: User | None = None,
) -> IssuedToken:
    """A token for `owner` (default: the actor), for 90 days unless told otherwise.

    Its rights are those that its owner has and that are in `scopes`; with `services`, over these alone.
    One that is made by means of a token can do no more than that one, nor longer. For others only an
    administrator makes tokens. Raises NotAllowed, OutOfScope, Invalid.
    """
    now = clock.now()
    parent = _means(actor)
    if expires_at is None:
        expires_at = min(now + USUAL, parent.expires_at) if parent else now + USUAL
    if owner is None and actor.user_id is not None:
        owner = User.objects.filter(pk=actor.user_id, is_active=True, suspended_at=None).first()
    if owner is None:
        raise NotAllowed(_("Sign in to create a token."))
    if owner.pk != actor.user_id:
        require_everywhere(actor, Right.PEOPLE_ADMIN)
    _validate(name=name, scopes=scopes, expires_at=expires_at, now=now, services=services)
    if parent is not None:
        _keep_within(parent, scopes=scopes, expires_at=expires_at, team=team, services=services)
    return issue_for_part(
        actor=actor,
        owner=owner,
        name=name,
        scopes=scopes,
        team=team,
        services=services,
        expires_at=expires_at,
    )


def issue_for_part(
    *,
    actor: Actor,
    owner: User,
    name: str,
    scopes: Collection[str],
    team: Team | None,
    expires_at: datetime,
    services: Collection[str] = (),
    reason: str = "",
) -> IssuedToken:
    """A token for an account that is a part of the system, such as agents: whoever calls has checked that the
    actor may have one made. Raises Invalid."""
    _validate(name=name, scopes=scopes, expires_at=expires_at, now=clock.now())
    if owner.is_machine and (beyond := sorted(set(scopes) - MACHINE_RIGHTS[owner.kind])):
        raise Invalid(
            fields={
                "scopes": [_("A machine account has no right to %(scopes)s.") % {"scopes": ", ".join(beyond)}]
            }
        )
    key = keys.new_key()
    token = ApiToken(
        owner=owner,
        name=name.strip(),
        prefix=key.prefix,
        secret_hash=key.hash,
        scopes=sorted({str(scope) for scope in scopes}),
        team=team,
        services=sorted(set(services)),
        created_at=clock.now(),
        expires_at=expires_at,
    )
    token.clean_fields()
    with transaction.atomic():
        token.save(force_insert=True)
        record(
            actor,
            "token.create",
            subject=token,
            reason=reason,
            detail={
                "owner": owner.username,
                "scopes": token.scopes,
                "services": token.services,
                "expires_at": expires_at.isoformat(),
            },
            team_id=team.pk if team else None,
        )
    return IssuedToken(token, key.text)


def revoke_token(*, actor: Actor, token: ApiToken, reason: str = "") -> None:
    """Revoke a token from the next request on: one's own, or another's as an administrator. Twice is once."""
    if token.owner_id != actor.user_id:
        require_everywhere(actor, Right.PEOPLE_ADMIN)
    elif actor.token_id not in (None, token.pk) and not set(token.scopes) <= (actor.scopes or frozenset()):
        raise OutOfScope(_("A token cannot revoke one that has more scopes than itself."))
    revoke_of_part(actor=actor, token=token, reason=reason)


def revoke_of_part(*, actor: Actor, token: ApiToken, reason: str = "") -> None:
    """Revoke a token of an account that is a part of the system: the caller has checked the right."""
    with transaction.atomic():
        now = clock.now()
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            token.revoked_at = now
            record(
                actor,
                "token.revoke",
                subject=token,
                reason=reason,
                detail={"owner": token.owner.username},
                team_id=token.team_id,
            )


def use_token(text: str) -> ApiToken:
    """The token behind the text, with its owner. Raises InvalidToken; only who has the secret is told why."""
    key = keys.parse(text)
    found = _of_prefix(key.prefix) if key else []
    token = found[0] if found else None
    if not (key and token and key.proves(token.secret_hash)):
        raise InvalidToken(_("This token is unknown. Check that it was copied whole."))
    if token.state is not TokenState.ACTIVE:
        raise InvalidToken(
            _("This token is %(state)s. Create a new one.") % {"state": str(token.state.label).lower()}
        )
    if not token.owner.is_active:
        raise InvalidToken(_("The owner of this token is no longer active."))
    if token.owner.suspended_at is not None:
        raise InvalidToken(
            _(
                "The identity provider no longer accepts the owner of this token. It works again when they "
                "have signed in there."
            )
        )
    _mark_use(token)
    return token


@prepared
def _of_prefix(prefix: str) -> QuerySet[ApiToken]:
    return ApiToken.objects.select_related("owner").filter(prefix=prefix)


def _mark_use(token: ApiToken) -> None:
    now = clock.now()
    if token.last_used_at is not None and token.last_used_at > now - MARK_USE_EVERY:
        return
    due = Q(last_used_at=None) | Q(last_used_at__lte=now - MARK_USE_EVERY)
    try:
        with transaction.atomic():
            ApiToken.objects.filter(due, pk=token.pk).update(last_used_at=now)
    except DatabaseError:
        # Only a convenience for its owner: a busy database must not refuse a good token.
        logger.warning("Could not mark the use of token %s", token.prefix, exc_info=True)


def _means(actor: Actor) -> ApiToken | None:
    """The token that the actor asks by; None in a session. Raises Missing when it is gone."""
    if actor.token_id is None:
        return None
    parent = ApiToken.objects.filter(pk=actor.token_id).first()
    if parent is None:
        raise Missing(_("The token that you use is gone."))
    return parent


def _validate(
    *,
    name: str,
    scopes: Collection[str],
    expires_at: datetime,
    now: datetime,
    services: Collection[str] = (),
) -> None:
    faults: dict[str, list[str]] = {}
    if not name.strip():
        faults["name"] = [_("Name what the token is for.")]
    elif found := hidden(name):
        faults["name"] = [hidden_fault(found)]
    if not scopes:
        faults["scopes"] = [_("Select at least one scope.")]
    if unknown := sorted(set(scopes) - set(Right.values)):
        faults["scopes"] = [
            _("Unknown: %(unknown)s. Known: %(known)s.")
            % {"unknown": ", ".join(unknown), "known": ", ".join(Right.values)}
        ]
    if services and (beyond := sorted(set(scopes) - SERVICE_RIGHTS)):
        faults["services"] = [
            _("A token that is limited to services cannot have %(scopes)s.") % {"scopes": ", ".join(beyond)}
        ]
    elif len(services) > MAX_SERVICES or not all(_SERVICE.fullmatch(service) for service in services):
        faults["services"] = [_("Give names of services, at most %(most)s.") % {"most": MAX_SERVICES}]
    if not now < expires_at <= now + LONGEST:
        faults["expires_at"] = [_("Choose a time within the next %(days)s days.") % {"days": LONGEST.days}]
    if faults:
        raise Invalid(fields=faults)


def _keep_within(
    parent: ApiToken,
    *,
    scopes: Collection[str],
    expires_at: datetime,
    team: Team | None,
    services: Collection[str],
) -> None:
    if beyond := sorted(set(scopes) - set(parent.scopes)):
        said = _("A token cannot create one with more scopes than its own: %(scopes)s.")
        raise OutOfScope(said % {"scopes": ", ".join(beyond)})
    if parent.team_id is not None and (team is None or team.pk != parent.team_id):
        raise OutOfScope(_("A token that is limited to a team can only create tokens for that team."))
    if parent.services and not (services and set(services) <= set(parent.services)):
        raise OutOfScope(
            _("A token that is limited to services can only create tokens for these: %(services)s.")
            % {"services": ", ".join(parent.services)}
        )
    if expires_at > parent.expires_at:
        raise OutOfScope(_("A token cannot create one that expires later than itself."))


def issue_exchanged(
    *,
    actor: Actor,
    owner: User,
    name: str,
    scopes: Collection[str],
    lives: timedelta,
    detail: Mapping[str, Any],
) -> IssuedToken:
    """A token for a service account that a CI system has proven to be: whoever calls has verified that."""
    now = clock.now()
    key = keys.new_key()
    token = ApiToken(
        owner=owner,
        name=name,
        prefix=key.prefix,
        secret_hash=key.hash,
        scopes=sorted(scopes),
        is_exchanged=True,
        created_at=now,
        expires_at=now + lives,
    )
    token.clean_fields()
    with transaction.atomic():
        token.save(force_insert=True)
        record(actor, "token.exchange", subject=token, detail={"scopes": token.scopes, **detail})
    return IssuedToken(token, key.text)
