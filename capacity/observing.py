"""What a look finds of each service of a pool, and the plan that follows from it. Nothing is written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from capacity.looks import PoolLook, Remembered, ServiceLook, observe_effect, observe_load
from capacity.machines import WholeMachines, machine_changes, plan_machines, whole_machines
from capacity.models import Pool, PoolMember, active_law
from capacity.planning.errors import PlanningError
from capacity.planning.law import Recommendation, recommend
from capacity.planning.moves import MoveGuards, PoolMachine, plan_moves
from capacity.planning.policies import law_with
from capacity.planning.sharing import Demand, grants
from capacity.states import CapacityPlanKind, Granularity
from capacity.switch_times import switch_time
from clusters import selectors as fleet
from clusters.fleet import DeploymentSnapshot
from clusters.states import GONE
from gateway import selectors as gateways
from gateway.errors import UnknownRoute
from gpu_health import selectors as health

QUEUE_KNOWN_SECONDS = 60.0
"""For which the last look at a queue says what waits there."""


def look_at(pool: Pool, now: datetime) -> PoolLook:
    """Observe the services of the pool and plan. A service without heartbeats keeps what it has."""
    members = list(pool.memberships.select_related("groups", "queue"))
    stable = {member.service: stable_target(member.service) for member in members}
    living = fleet.deployments_now(stable.values())
    whole = whole_machines(pool, stable) if pool.granularity == Granularity.MACHINE else None
    seen = [_seen(pool, member, stable[member.service], living, now, whole) for member in members]
    remembered = {one.look.service: one.remembered for one in seen}
    looks = [one.look for one in seen]
    demands = [one.demand for one in seen if one.demand is not None]
    size = whole.total([demand.service for demand in demands]) if whole else pool.workers
    try:
        granted = grants(size, demands)
    except PlanningError as error:
        return PoolLook(tuple(looks), remembered, problem=str(error))
    each = whole.workers if whole else {}
    looks = [
        replace(look, granted=granted[look.service] * each.get(look.service, 1))
        if look.service in granted
        else replace(look, granted=look.have)
        for look in looks
    ]
    if whole is not None:
        planned = _planned_machines(pool, whole, looks, living, granted, remembered, now)
    else:
        planned = _planned(pool, members, looks, remembered, now)
    return _with_bounds(planned, members, each)


@dataclass(frozen=True)
class SeenService:
    """A service as it was seen, and what it asks of the pool; None: it has no workers to move."""

    look: ServiceLook
    remembered: Remembered
    demand: Demand | None = None


def _seen(
    pool: Pool,
    member: PoolMember,
    stable: str,
    living: Mapping[str, DeploymentSnapshot],
    now: datetime,
    whole: WholeMachines | None,
) -> SeenService:
    law = law_with(switch_time(member, stable), active_law(member))
    look = ServiceLook(member.service, stable, target=law.target)
    before = Remembered.of(member.memory)
    deployment = living.get(stable)
    if deployment is None:
        return SeenService(replace(look, held="no_workers"), before)
    have = deployment.row.replicas
    look = replace(
        look,
        have=have,
        wanted=have,
        ready=deployment.load.ready,
        busy=deployment.load.busy,
        in_flight=deployment.load.in_flight,
        waiting=sum(worker.queue_depth for worker in deployment.workers),
        held=held_by(pool, member.service, stable, deployment)
        or _queue_held(member, now)
        or (whole.held.get(member.service, "") if whole else ""),
    )
    if look.busy is None and have:
        return SeenService(look, before, _demand(member, look, base=have, whole=whole))
    after, observed = observe_load(before, deployment.workers, deployment.row.slots, now.timestamp())
    recommended = recommend(law, after.law_memory, observed, have)
    effect = observe_effect(before, after, observed, look)
    after = replace(after.with_law(recommended.memory), effect=effect)
    is_vain = recommended.machines > have and effect.forbids_more(observed.at) and not _has_queue(member)
    if is_vain:
        recommended = replace(recommended, machines=have, why="did_not_help")
    look = replace(
        look,
        load=recommended.base,
        need=recommended.need,
        wanted=recommended.machines,
        why=recommended.why,
    )
    look = _with_queue(member, look, recommended)
    base = min(look.load, float(have)) if is_vain else look.load
    return SeenService(look, after, _demand(member, look, base=base, whole=whole))


def _has_queue(member: PoolMember) -> bool:
    return getattr(member, "queue", None) is not None


def _queue_held(member: PoolMember, now: datetime) -> str:
    """Say that the queue has not told what waits: silence is not an empty queue."""
    queue = getattr(member, "queue", None)
    if queue is None:
        return ""
    seen_at = queue.figures.get("at", 0.0)
    return "" if now.timestamp() - seen_at < QUEUE_KNOWN_SECONDS else "no_queue"


def _with_queue(member: PoolMember, look: ServiceLook, requests: Recommendation) -> ServiceLook:
    """Add what the queue needs: beside requests in the same workers, or in workers of its own by groups.

    A service without a queue keeps one worker: nothing else would tell that requests come again.
    """
    queue = getattr(member, "queue", None)
    if queue is None or not queue.look:
        return replace(look, wanted=max(min(1, look.have), look.wanted)) if queue is None else look
    found, have = queue.figures, look.have
    for_requests = requests.machines if requests.machines > have else min(have, ceil(requests.highest))
    wanted = (
        for_requests + found["workers"] if hasattr(member, "groups") else max(for_requests, found["workers"])
    )
    if have >= wanted and requests.why != "need_stayed_below" and ceil(requests.highest) > 0:
        wanted = have
    return replace(
        look,
        load=max(look.load, found["rate"]),
        need=max(look.need, float(found["workers"])),
        wanted=wanted,
        why=found["why"] if found["workers"] >= for_requests else look.why,
        queue=found["waiting"] + found["in_hand"],
    )


def _demand(
    member: PoolMember, look: ServiceLook, *, base: float, whole: WholeMachines | None = None
) -> Demand:
    """Count in workers, or in machines where they are whole. Leave out what must not move: it is neither
    given away nor counted as free."""
    each = whole.workers[member.service] if whole else 1
    have = whole.of(member.service) if whole else look.have
    guarantee = max(member.guarantee, have) if look.held else member.guarantee
    limit = max(guarantee, have if look.held else member.limit)
    wanted = ceil(look.wanted / each)
    return Demand(member.service, guarantee, limit, member.weight, base / each, wanted, have)


def stable_target(service: str) -> str:
    try:
        return gateways.route(service).stable_target
    except UnknownRoute:
        return ""


def held_by(pool: Pool, service: str, stable: str, deployment: DeploymentSnapshot) -> str:
    """Why its workers must stay as they are; empty: they may move."""
    if deployment.load.busy is None and deployment.row.replicas:
        return "no_heartbeats"
    if fleet.deployments_of(service).exclude(name=stable).exclude(state__in=GONE).exists():
        return "in_release"
    nodes = [worker.row.node_id for worker in deployment.workers if worker.row.node_id is not None]
    if health.out_of_service(nodes).exists():
        return "in_healing"
    if deployment.row.cluster_id != pool.cluster_id:
        return "other_cluster"
    return "scaled_by_others" if fleet.deployment(stable).scaled_by_others else ""


def _with_bounds(seen: PoolLook, members: Iterable[PoolMember], each: Mapping[str, int]) -> PoolLook:
    """Say of each service which guard keeps it from the workers that its law recommends.

    each: workers of a machine, where these are whole; less than one machine is no difference.
    """
    after = {change["service"]: change["after"] for change in seen.changes}

    def bound(look: ServiceLook, member: PoolMember, machine: int) -> str:
        gets = after.get(look.service, look.have)
        if abs(gets - look.wanted) < machine:
            return ""
        if look.held:
            return look.held
        if gets < look.wanted:
            return "at_limit" if look.granted >= member.limit * machine else "pool_full"
        if look.granted < gets:
            return seen.kept.get(look.service, "nothing_movable")
        return "guaranteed" if look.granted <= member.guarantee * machine else "small_change"

    shares = {one.service: one for one in members}
    looks = (
        replace(look, bound=bound(look, shares[look.service], each.get(look.service, 1)))
        for look in seen.looks
    )
    return replace(seen, looks=tuple(looks))


def _planned(
    pool: Pool,
    memberships: Iterable[PoolMember],
    looks: list[ServiceLook],
    remembered: Mapping[str, Remembered],
    now: datetime,
) -> PoolLook:
    """Workers of one pool are alike: they are counted here as machines without a name of their own."""
    moved = {one.service: one.moved_at.timestamp() if one.moved_at else 0.0 for one in memberships}
    machines = [
        PoolMachine(
            f"{look.service}/{index:03}",
            look.service,
            since=moved[look.service],
            moving=index >= look.ready,
            kept_by=look.held,
        )
        for look in looks
        for index in range(look.have)
    ]
    free = pool.workers - len(machines)
    machines += [PoolMachine(f"free/{index:03}", None) for index in range(free)]
    guards = MoveGuards(pool.budget, pool.dwell_seconds, pool.parallel_starts)
    planned = plan_moves(
        machines, {look.service: look.granted for look in looks if look.deployment}, now.timestamp(), guards
    )
    delta = dict.fromkeys((look.service for look in looks), 0)
    for move in planned.moves:
        if move.source:
            delta[move.source] -= 1
        if move.target:
            delta[move.target] += 1
    looks = [replace(look, held=look.held or planned.held.get(look.service, "")) for look in looks]
    looks = [
        replace(look, why="others_need_them")
        if delta[look.service] < 0 and look.wanted >= look.have
        else look
        for look in looks
    ]
    changes = tuple(
        {
            "service": look.service,
            "deployment": look.deployment,
            "before": look.have,
            "after": look.have + delta[look.service],
            "why": look.why,
        }
        for look in looks
        if delta[look.service]
    )
    return PoolLook(tuple(looks), remembered, changes, kept=planned.kept)


def _planned_machines(
    pool: Pool,
    whole: WholeMachines,
    looks: list[ServiceLook],
    living: Mapping[str, DeploymentSnapshot],
    granted: Mapping[str, int],
    remembered: Mapping[str, Remembered],
    now: datetime,
) -> PoolLook:
    """Each machine that moves takes as many workers of its services with it as it holds."""
    there = {look.service: living[look.deployment] for look in looks if look.deployment in living}
    held = {look.service: look.held for look in looks}
    planned = plan_machines(pool, whole.machines, granted, there, held, now)
    moved = machine_changes(planned)
    looks = [replace(look, held=look.held or planned.held.get(look.service, "")) for look in looks]
    changes = tuple(
        {
            "service": look.service,
            "deployment": look.deployment,
            "before": look.have,
            "after": max(0, (whole.of(look.service) + len(gets) - len(gives)) * whole.workers[look.service]),
            "why": "others_need_them" if gives and look.wanted >= look.have else look.why,
            "gives": gives,
            "gets": gets,
        }
        for look in looks
        if (names := moved.get(look.service))
        for gives, gets in [(names["gives"], names["gets"])]
    )
    return PoolLook(tuple(looks), remembered, changes, kind=CapacityPlanKind.MACHINES, kept=planned.kept)
