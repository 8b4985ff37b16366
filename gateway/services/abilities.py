"""Writes of abilities: addresses that lead to the workers of several services."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.models import Cluster
from common import audit, clock
from common.actor import Actor
from common.errors import Conflict, Invalid
from common.live.touch import touch
from common.reconcile import kernel
from common.sentences import listed
from gateway import selectors
from gateway.backends.checks import NAME
from gateway.backends.configured import backends_of
from gateway.errors import GatewayError
from gateway.models import AbilityRoute, Gateway, Route
from gateway.routes import AbilityMember, AbilitySpec, RouteTarget, WorkerEndpoint
from gateway.states import AbilityState, GatewayKind
from serving.protocol import ABILITY


def create_ability(
    *, actor: Actor, team: Team, name: str, ability: str = "", cluster: str = "", description: str = ""
) -> AbilityRoute:
    """Give an ability an address at the gateway of a cluster; its workers follow within seconds.

    `ability`: empty where it has the address's name. `cluster`: empty for the first that can have one.
    Raises NotAllowed, Invalid, Conflict.
    """
    ability = ability or name
    if not NAME.fullmatch(name) or len(name) > 63:
        raise Invalid(fields={"name": [_("Use letters, digits, dots and hyphens, 63 at most.")]})
    if not ABILITY.fullmatch(ability):
        text = _("An ability has lower-case letters, digits, dots, hyphens and underscores, 64 at most.")
        raise Invalid(fields={"ability": [text]})
    row = AbilityRoute(team=team, name=name, ability=ability, description=description)
    row.gateway = _gateway(actor, cluster)
    with transaction.atomic():
        if selectors.routes().filter(service=name).exists():
            raise Conflict(_("A service has the address /%(name)s/. Choose another name.") % {"name": name})
        team_rows.create(row, actor=actor, right=Right.SERVICES_WRITE)
        kernel.wake(row.gateway)
        touch("changes", "abilities")
    return row


def remove_ability(row: AbilityRoute, *, actor: Actor, reason: str = "") -> None:
    """Take the address away within seconds; requests in flight end as they would. Raises NotAllowed."""
    require(actor, Right.SERVICES_WRITE, row.team)
    with transaction.atomic():
        audit.record(actor, "abilityroute.remove", subject=row, reason=reason, team_id=row.team_id)
        kernel.wake(row.gateway)
        row.delete()
        touch("changes", "abilities")


def _gateway(actor: Actor, cluster: str) -> Gateway:
    rows = selectors.gateways().filter(cluster__in=Cluster.objects.for_actor(actor))
    if cluster:
        found = rows.filter(cluster__name=cluster).first()
        if found is None:
            raise Invalid(fields={"cluster": [_("There is no such cluster, or it has no gateway.")]})
        return found
    # Where Envoy counts what is in flight, requests go to the idlest worker.
    found = rows.filter(kind=GatewayKind.ENVOY).first() or rows.first()
    if found is None:
        raise Invalid(fields={"cluster": [_("No cluster has a gateway.")]})
    return found


def sync_abilities(gateway: Gateway) -> None:
    """Tell the gateway of all its abilities and of their workers, as they were heard last.

    An older look than the last is ignored. Raises GatewayError, which the rows tell, too.
    """
    seen_at = clock.now()
    rows = list(AbilityRoute.objects.filter(gateway=gateway).select_related("team"))
    routes = list(selectors.routes().filter(gateway=gateway)) if rows else []
    targets = {target.name for route in routes for target in route.applied_spec.targets}
    registered = fleet.registered_abilities(targets)
    traffic = backends_of(gateway).traffic
    try:
        specs = []
        for row in rows:
            row.members = list(_members(row, routes, registered))
            specs.append(_spec_of(row))
            traffic.set_target(specs[-1].target, _endpoints(row), observed_at=seen_at)
        traffic.set_abilities(specs, observed_at=seen_at)
    except GatewayError as error:
        told = {"state": AbilityState.PENDING, "problem": str(error)}
        AbilityRoute.objects.filter(pk__in=[row.pk for row in rows]).update(**told)
        raise
    taken = {route.service for route in routes}
    for row in rows:
        _write(row, registered.values(), is_taken=row.name in taken)


def sync_abilities_of(cluster_id: int) -> None:
    """Do so after workers or routes of the cluster changed. Raises GatewayError."""
    row = AbilityRoute.objects.filter(gateway__cluster=cluster_id).select_related("gateway__cluster").first()
    if row is not None:
        sync_abilities(row.gateway)


def _members(
    row: AbilityRoute, routes: Iterable[Route], registered: dict[str, fleet.RegisteredAbilities]
) -> Iterable[dict[str, Any]]:
    before = {one["target"]: one for one in row.members}

    def has_it(target: str) -> bool:
        found = registered.get(target)
        if found is None or found.team_id != row.team_id:
            return False
        # Of workers that have not reported lately, what was known of them holds.
        return target in before if found.abilities is None else row.ability in found.abilities

    for route in routes:
        spec = route.applied_spec
        if not has_it(spec.stable.name):
            continue
        try:
            workers = fleet.endpoints(spec.stable.name).addresses
        except DeploymentMissing:
            continue
        found = registered[spec.stable.name]
        known = before.get(spec.stable.name, {"slots": found.slots})
        yield {
            "service": route.service,
            "target": spec.stable.name,
            "version": spec.stable.version,
            "workers": [list(one) for one in workers],
            "slots": known["slots"] if found.abilities is None else found.slots,
            "candidate": spec.candidate.name if spec.candidate and has_it(spec.candidate.name) else "",
        }


def _spec_of(row: AbilityRoute) -> AbilitySpec:
    members = (
        AbilityMember(one["service"], len(one["workers"]) * one["slots"], one["candidate"])
        for one in row.members
        if one["workers"]
    )
    return AbilitySpec(row.name, tuple(members))


def _endpoints(row: AbilityRoute) -> list[WorkerEndpoint]:
    return [
        WorkerEndpoint(address, port, one["slots"], RouteTarget(one["target"], one["version"]))
        for one in row.members
        for address, port in one["workers"]
    ]


def _write(row: AbilityRoute, registered: Iterable[fleet.RegisteredAbilities], *, is_taken: bool) -> None:
    problem = ""
    if is_taken:
        problem = _("A service has the address /%(name)s/: remove this one.") % {"name": row.name}
    elif not row.workers:
        of_team = [one.abilities or () for one in registered if one.team_id == row.team_id]
        known = sorted({name for names in of_team for name in names})
        problem = _("No worker of team %(team)s registers %(ability)s. Registered: %(known)s.") % {
            "team": row.team,
            "ability": row.ability,
            "known": listed(known) if known else "-",
        }
    row.state = AbilityState.SERVING if row.workers and not is_taken else AbilityState.NO_WORKERS
    columns = {"state": row.state, "members": row.members, "problem": problem}
    same = AbilityRoute.objects.filter(pk=row.pk, **columns)
    if not same.exists():
        AbilityRoute.objects.filter(pk=row.pk).update(**columns)
        touch("changes", "abilities")
