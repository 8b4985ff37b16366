"""What a look finds of each service of a pool, and the plan that follows from it. Nothing is written."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from capacity.models import Pool, PoolMember
from capacity.planning.errors import PlanningError
from capacity.planning.law import CLIPPED, ObservedLoad, ScalingMemory, law_for, recommend
from capacity.planning.moves import MoveGuards, PoolMachine, plan_moves
from capacity.planning.sharing import Demand, grants
from clusters import selectors as fleet
from clusters.fleet import DeploymentSnapshot
from clusters.states import GONE
from gateway import selectors as gateways
from gateway.errors import UnknownRoute

UNMEASURED_SWITCH_SECONDS = 60.0
MEAN_SECONDS = 60.0


@dataclass(frozen=True)
class Remembered:
    """Kept between two looks of one service.

    at: seconds since 1970 of that look. offered: (seconds, workers) of the last minute. requests: answered
    ones by worker. waiting: requests in queues and in flight. needs, reviewed: see `ScalingMemory`.
    """

    at: float = 0.0
    offered: tuple[tuple[float, float], ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    needs: tuple[tuple[float, float], ...] = ()
    reviewed: float | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Remembered":
        pairs = {
            name: tuple((at, value) for at, value in stored.get(name, ())) for name in ("offered", "needs")
        }
        return cls(**{**stored, **pairs}) if stored else cls()


@dataclass(frozen=True)
class ServiceLook:
    """A service at one moment. Everything counts in workers, seconds and shares of 1.

    have: workers that are wanted now. ready: those that answer. load: work that arrives. need: the load at
    the target utilisation, with what waits. wanted: recommended by its law. granted: what the pool gives it.
    why, held: codes of `capacity.reasons`; held says which guard keeps its workers as they are.
    """

    service: str
    deployment: str = ""
    have: int = 0
    ready: int = 0
    busy: float | None = None
    in_flight: int = 0
    waiting: int = 0
    load: float = 0.0
    need: float = 0.0
    wanted: int = 0
    granted: int = 0
    target: float = 0.0
    why: str = ""
    held: str = ""


@dataclass(frozen=True)
class PoolLook:
    """Looks, what to remember of each service, the changes that follow, and why there are none."""

    looks: tuple[ServiceLook, ...]
    remembered: Mapping[str, Remembered]
    changes: tuple[dict[str, Any], ...] = ()
    problem: str = ""


def look_at(pool: Pool, now: datetime) -> PoolLook:
    """Observe the services of the pool and plan. A service without heartbeats keeps what it has."""
    memberships = list(pool.memberships.all())
    stable = {one.service: _stable(one.service) for one in memberships}
    living = fleet.deployments_now(stable.values())
    looks: list[ServiceLook] = []
    remembered: dict[str, Remembered] = {}
    demands: list[Demand] = []
    for one in memberships:
        law = law_for(one.switch_seconds if one.switch_seconds is not None else UNMEASURED_SWITCH_SECONDS)
        deployment = living.get(stable[one.service])
        found = ServiceLook(one.service, stable[one.service], target=law.target)
        before = Remembered.of(one.memory)
        if deployment is None:
            looks.append(replace(found, held="no_workers"))
            remembered[one.service] = before
            continue
        have = deployment.row.replicas
        found = replace(
            found,
            have=have,
            ready=deployment.load.ready,
            busy=deployment.load.busy,
            in_flight=deployment.load.in_flight,
            waiting=sum(worker.queue_depth for worker in deployment.workers),
        )
        if deployment.load.busy is None:
            held = "no_heartbeats"
            looks.append(replace(found, wanted=have, granted=have, held=held))
            remembered[one.service] = before
            demands.append(
                Demand(one.service, min(have, one.limit), max(have, one.limit), one.weight, have, have, have)
            )
            continue
        after, observed = _observed(before, deployment, now.timestamp())
        told = recommend(law, ScalingMemory(after.needs, after.reviewed), observed, have)
        remembered[one.service] = replace(after, needs=told.memory.needs, reviewed=told.memory.reviewed)
        held = _held(one.service, stable[one.service], pool)
        looks.append(
            replace(found, load=told.base, need=told.need, wanted=told.machines, why=told.why, held=held)
        )
        # What must not move is neither given away nor counted as free.
        least = max(one.guarantee, have) if held else one.guarantee
        most = max(least, have if held else one.limit)
        demands.append(Demand(one.service, least, most, one.weight, told.base, told.machines, have))
    try:
        granted = grants(pool.workers, demands)
    except PlanningError as error:
        return PoolLook(tuple(looks), remembered, problem=str(error))
    looks = [replace(one, granted=granted.get(one.service, one.have)) for one in looks]
    return _planned(pool, memberships, looks, remembered, now)


def _stable(service: str) -> str:
    try:
        return gateways.route(service).stable_target
    except UnknownRoute:
        return ""


def _held(service: str, stable: str, pool: Pool) -> str:
    """Why its workers must stay as they are."""
    others = fleet.deployments_of(service).exclude(name=stable).exclude(state__in=GONE)
    if others.exists():
        return "in_release"
    row = fleet.deployment(stable)
    if row.cluster_id != pool.cluster_id:
        return "other_cluster"
    if row.leaves_scale:
        return "scaled_by_others"
    return ""


def _observed(
    before: Remembered, deployment: DeploymentSnapshot, at: float
) -> tuple[Remembered, ObservedLoad]:
    """The load in workers: busy rates while they are not clipped, beyond that by what came and what waits."""
    workers = deployment.load.ready
    busy = deployment.load.busy or 0.0
    slots = max(1, deployment.row.slots)
    queue = sum(worker.queue_depth for worker in deployment.workers)
    waiting = queue + deployment.load.in_flight
    requests = {worker.row.uid: worker.requests for worker in deployment.workers}
    passed = max(0.1, at - before.at)
    answered = sum(
        max(0, count - before.requests[uid]) for uid, count in requests.items() if uid in before.requests
    )
    offered = busy * workers
    if busy >= CLIPPED:
        growth = max(0, waiting - before.waiting) if before.at else 0
        offered = workers * (1 + growth / answered) if answered else max(workers, waiting / slots)
    service_seconds = deployment.load.in_flight * passed / answered if answered else 1.0
    kept = [(then, value) for then, value in before.offered if at - MEAN_SECONDS < then < at]
    history = (*kept, (at, offered))
    mean = sum(value for _then, value in history) / len(history)
    observed = ObservedLoad(at, offered, mean, queue * service_seconds / slots)
    after = replace(before, at=at, offered=history, requests=requests, waiting=waiting)
    return after, observed


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
    return PoolLook(tuple(looks), remembered, changes)


def stored(value: Any) -> dict[str, Any]:
    """A look or what is remembered, as its column keeps it."""
    return asdict(value)
