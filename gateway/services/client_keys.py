"""Writes of keys of clients, and of the services that demand one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right, TokenState
from common import audit, clock
from common.actor import Actor
from common.errors import Conflict, Invalid, Missing
from common.live.touch import touch
from common.reconcile import kernel
from gateway import key_selectors, selectors
from gateway.backends.configured import backends_of
from gateway.client_access import SHOWN_CHARACTERS, AllowedKey, ClientAccess, key_hash, new_key_text
from gateway.models import AbilityRoute, ClientKey, Gateway, Route
from gateway.states import KNOWS_KEYS

MOST_SERVICES = 100
MOST_A_MINUTE = 1_000_000_000


class IssuedKey(NamedTuple):
    key: ClientKey
    text: str
    """Exists here and at whom it is shown to, once."""


def create_key(
    *,
    actor: Actor,
    team: Team,
    name: str,
    services: Sequence[str] = (),
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    expires_at: datetime | None = None,
    description: str = "",
) -> IssuedKey:
    """Make a key for services of the team; it opens them within seconds.

    `services`: names of services and abilities; none: all of the team. Raises NotAllowed, Invalid, Conflict.
    """
    require(actor, Right.SERVICES_WRITE, team)
    _check(team, name, services, expires_at, (requests_per_minute, tokens_per_minute))
    text = new_key_text()
    row = ClientKey(
        team=team,
        name=name,
        description=description,
        prefix=text[:SHOWN_CHARACTERS],
        secret_hash=key_hash(text),
        services=sorted(set(services)),
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        expires_at=expires_at,
    )
    with transaction.atomic():
        team_rows.create(row, actor=actor, right=Right.SERVICES_WRITE)
        _tell_gateways()
    return IssuedKey(row, text)


def revoke_key(row: ClientKey, *, actor: Actor, reason: str = "") -> None:
    """End a key: gateways refuse it within seconds; requests in flight run to their end. Twice is once.

    Raises NotAllowed.
    """
    require(actor, Right.SERVICES_WRITE, row.team)
    with transaction.atomic():
        live = ClientKey.objects.filter(pk=row.pk, revoked_at=None)
        if live.update(revoked_at=clock.now(), state=TokenState.REVOKED):
            audit.record(actor, "clientkey.revoke", subject=row, reason=reason, team_id=row.team_id)
            _tell_gateways()
    row.refresh_from_db()


def demand_key(service: str, *, actor: Actor, demanded: bool, reason: str = "") -> Route:
    """Have the gateway answer for this service to clients with a key alone, or to everybody again; within
    seconds. Addresses of abilities that lead to it demand one, too. Raises Missing, NotAllowed, Conflict.
    """
    row = selectors.routes().filter(service=service).first()
    team = key_selectors.teams_of_routes([row]).get(service) if row else None
    if row is None or team is None:
        raise Missing(_("The service %(name)s has no address at a gateway.") % {"name": service})
    require(actor, Right.SERVICES_WRITE, team)
    if demanded and row.gateway.kind not in KNOWS_KEYS:
        words = _(
            "The gateway of %(cluster)s is a Gateway of Kubernetes, which has no standard for keys. Demand "
            "them there by a policy of its own kind."
        )
        raise Conflict(words % {"cluster": row.gateway})
    with transaction.atomic():
        if Route.objects.filter(pk=row.pk, requires_key=not demanded).update(requires_key=demanded):
            detail = {"requires_key": demanded}
            audit.record(actor, "route.keys", subject=row, reason=reason, detail=detail, team_id=team)
            kernel.wake(row.gateway)
            touch("changes", "client-keys")
    row.requires_key = demanded
    return row


def sync_access(gateway: Gateway) -> None:
    """Tell the gateway of all keys that open services behind it, as they are now. Raises GatewayError."""
    seen_at = clock.now()
    backend = backends_of(gateway).access
    if backend is not None:
        _mark_expired(seen_at)
        backend.set_access(_access_at(gateway), observed_at=seen_at)


def _access_at(gateway: Gateway) -> ClientAccess:
    rows = list(selectors.routes().filter(gateway=gateway))
    by_service = key_selectors.teams_of_routes(rows)
    demanded = {row.service for row in rows if row.requires_key}
    names: dict[int, set[str]] = {}
    for service, team in by_service.items():
        names.setdefault(team, set()).add(service)
    for ability in AbilityRoute.objects.filter(gateway=gateway):
        names.setdefault(ability.team_id, set()).add(ability.name)
        if demanded & {str(one["service"]) for one in ability.members}:
            demanded.add(ability.name)
    keys = ClientKey.objects.filter(state=TokenState.ACTIVE, team__in=list(names))
    return ClientAccess(tuple(_allowed(key, names) for key in keys.order_by("pk")), frozenset(demanded))


def _allowed(key: ClientKey, names: Mapping[int, set[str]]) -> AllowedKey:
    of_team = names[key.team_id]
    return AllowedKey(
        id=str(key.pk),
        hash=key.secret_hash,
        services=frozenset(of_team & set(key.services) if key.services else of_team),
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
        ends_at=key.expires_at,
    )


def _mark_expired(now: datetime) -> None:
    if ClientKey.objects.filter(state=TokenState.ACTIVE, expires_at__lte=now).update(
        state=TokenState.EXPIRED
    ):
        touch("changes", "client-keys")


def _tell_gateways() -> None:
    for gateway in selectors.gateways().filter(kind__in=KNOWS_KEYS):
        kernel.wake(gateway)
    touch("changes", "client-keys")


def _check(
    team: Team,
    name: str,
    services: Sequence[str],
    expires_at: datetime | None,
    limits: Sequence[int | None],
) -> None:
    faults: dict[str, list[str]] = {}
    if not name.strip():
        faults["name"] = [_("Name who uses the key.")]
    if expires_at is not None and expires_at <= clock.now():
        faults["expires_at"] = [_("Choose a time in the future.")]
    for field, limit in zip(("requests_per_minute", "tokens_per_minute"), limits, strict=True):
        if limit is not None and not 1 <= limit <= MOST_A_MINUTE:
            faults[field] = [_("Give a number from 1 to 1,000,000,000, or none for no limit.")]
    if len(services) > MOST_SERVICES:
        faults["services"] = [_("Name 100 services at most, or none for all of the team.")]
    elif unknown := sorted(set(services) - _names_of(team)):
        words = _(
            "Team %(team)s has no service or ability %(unknown)s at a gateway that knows keys; a Gateway of "
            "Kubernetes knows none."
        )
        faults["services"] = [words % {"team": team, "unknown": ", ".join(unknown)}]
    if faults:
        raise Invalid(fields=faults)


def _names_of(team: Team) -> set[str]:
    rows = selectors.routes().filter(gateway__kind__in=KNOWS_KEYS)
    services = {name for name, owner in key_selectors.teams_of_routes(rows).items() if owner == team.pk}
    return services | set(AbilityRoute.objects.filter(team=team).values_list("name", flat=True))
