"""Who is asking, and what they may do: from a session, a token, or by name from Slipway itself."""

from functools import cached_property
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.grants import ALL, Grants
from accounts.models import ApiToken, User
from accounts.states import MACHINE_RIGHTS, Right
from common import clock
from common.actor import Actor
from common.prepared import prepared

_RIGHTS = frozenset(Right.values)


class KnownActor(Actor):
    """The actor of one request: its rights are read once. Long connections make a new one to look again."""

    @cached_property
    def grants(self) -> Grants:
        return read_grants(self)

    def holds(self, right: str, *, everywhere: bool = False) -> bool:
        if everywhere:
            return Right(right) in self.grants.everywhere
        return self.grants.may(Right(right))


def of_user(user: User | AnonymousUser | None, *, address: str = "") -> KnownActor:
    if not isinstance(user, User):
        return KnownActor(name="anonymous", address=address, via="web")
    return KnownActor(name=user.username, user_id=user.pk, address=address, via="web")


def of_token(token: ApiToken, *, address: str = "") -> KnownActor:
    return KnownActor(
        name=token.owner.username,
        user_id=token.owner_id,
        token_id=token.pk,
        scopes=frozenset(token.scopes),
        address=address,
        via="api",
    )


def of_request(request: HttpRequest) -> Actor:
    """The actor that the middleware, or the API's authentication, found behind a request."""
    actor: Actor = request.actor  # type: ignore[attr-defined]
    return actor


def again(actor: Actor) -> KnownActor:
    """The same actor with rights not read yet: for sockets and streams, which must look again and again."""
    return KnownActor(
        name=actor.name,
        user_id=actor.user_id,
        token_id=actor.token_id,
        scopes=actor.scopes,
        address=actor.address,
        via=actor.via,
    )


def grants_of(actor: Actor) -> Grants:
    return actor.grants if isinstance(actor, KnownActor) else read_grants(actor)


def read_grants(actor: Actor) -> Grants:
    """Read the actor's grants in one query: none for an inactive or suspended user, a revoked or an
    expired token.
    """
    if actor.is_system:
        return Grants(everywhere=ALL)
    if actor.token_id is not None:
        return _grants_of_token(actor.token_id)
    if actor.user_id is None:
        return Grants()
    found = User.objects.filter(pk=actor.user_id, is_active=True, suspended_at=None)
    rows = list(found.values_list("kind", "is_superuser", "memberships__team_id", "memberships__role"))
    if not rows:
        return Grants()
    return _grants(rows[0][0], rows[0][1], [(team_id, role) for _, _, team_id, role in rows])


def _grants_of_token(token_id: int) -> Grants:
    rows = _rows_of_token(token_id)
    if not rows or rows[0][6] <= clock.now():
        return Grants()
    kind, superuser, _, _, scopes, only_team_id, _, services = rows[0]
    known = frozenset(Right(scope) for scope in scopes if scope in _RIGHTS)
    owners = _grants(kind, superuser, [(team_id, role) for _, _, team_id, role, *_ in rows])
    return owners.narrowed(known, team_id=only_team_id, services=frozenset(services))


@prepared
def _rows_of_token(token_id: int) -> QuerySet[ApiToken, tuple[Any, ...]]:
    """A row for each membership of the owner."""
    found = ApiToken.objects.filter(
        pk=token_id, revoked_at=None, owner__is_active=True, owner__suspended_at=None
    )
    return found.values_list(
        "owner__kind",
        "owner__is_superuser",
        "owner__memberships__team_id",
        "owner__memberships__role",
        "scopes",
        "team_id",
        "expires_at",
        "services",
    )


def _grants(kind: str, superuser: bool, roles: list[tuple[int | None, str | None]]) -> Grants:
    if kind in MACHINE_RIGHTS:
        return Grants(everywhere=MACHINE_RIGHTS[kind])
    if superuser:
        return Grants(everywhere=ALL)
    return Grants.of_roles({team_id: role for team_id, role in roles if team_id is not None and role})
