"""What a look finds of each service of a pool, and the plan that follows from it. Nothing is written."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any

from capacity.machines import WholeMachines, machine_changes, plan_machines, whole_machines
from capacity.models import Pool, PoolMember, active_law
from capacity.planning.errors import PlanningError
from capacity.planning.law import ObservedLoad, Recommendation, ScalingMemory, offered_work, recommend
from capacity.planning.moves import MoveGuards, PoolMachine, plan_moves
from capacity.planning.policies import law_with
from capacity.planning.sharing import Demand, grants
from capacity.states import CapacityPlanKind, Granularity
from capacity.switch_times import switch_time
from clusters import selectors as fleet
from clusters.fleet import DeploymentSnapshot, WorkerSnapshot, load_of
from clusters.states import GONE
from gateway import selectors as gateways
from gateway.errors import UnknownRoute
from gpu_health import selectors as health

MEAN_SECONDS = 60.0
QUEUE_KNOWN_SECONDS = 60.0
"""For which the last look at a queue says what waits there."""


@dataclass(frozen=True)
class Remembered:
    """Kept between two looks of one service.

    at: seconds since 1970 of that look. offered: (seconds, workers) of the last minute. requests: answered
    ones by worker. waiting: requests in queues and in flight. needs to last: see
    `ScalingMemory`.
    """

    at: float = 0.0
    offered: tuple[tuple[float, float], ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    needs: tuple[tuple[float, float], ...] = ()
    reviewed: float | None = None
    variance: float = 0.0
    last: tuple[float, float] | None = None

    @property
    def law_memory(self) -> ScalingMemory:
        return ScalingMemory(self.needs, self.reviewed, self.variance, self.last)

    def with_law(self, memory: ScalingMemory) -> "Remembered":
        return replace(
            self,
            needs=memory.needs,
            reviewed=memory.reviewed,
            variance=memory.variance,
            last=memory.last,
        )

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Remembered":
        pairs = {
            name: tuple((at, value) for at, value in stored.get(name, ())) for name in ("offered", "needs")
        }
        last = stored.get("last")
        return cls(**{**stored, **pairs, "last": tuple(last) if last else None}) if stored else cls()


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
    queue: float | None = None
    """Items that wait or are in hand in its queue; None: it has none, or that does not tell."""


@dataclass(frozen=True)
class PoolLook:
    """Looks, what to remember of each service, the changes that follow, and why there are none."""

    looks: tuple[ServiceLook, ...]
    remembered: Mapping[str, Remembered]
    changes: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    kind: CapacityPlanKind = CapacityPlanKind.WORKERS


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
        return _planned_machines(pool, whole, looks, living, granted, remembered, now)
    return _planned(pool, members, looks, remembered, now)


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
    after = after.with_law(recommended.memory)
    look = replace(
        look,
        load=recommended.base,
        need=recommended.need,
        wanted=recommended.machines,
        why=recommended.why,
    )
    look = _with_queue(member, look, recommended)
    return SeenService(look, after, _demand(member, look, base=look.load, whole=whole))


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


def observe_load(
    before: Remembered, workers: Iterable[WorkerSnapshot], slots: int, at: float
) -> tuple[Remembered, ObservedLoad]:
    """Return the load of workers that get requests, by what was remembered; slots: of one worker."""
    found = list(workers)
    now, waiting = load_of(found), sum(worker.queue_depth for worker in found)
    slots, unfinished = max(1, slots), waiting + now.in_flight
    requests = {worker.row.uid: worker.requests for worker in found}
    answered = sum(
        max(0, count - before.requests[uid]) for uid, count in requests.items() if uid in before.requests
    )
    growth = unfinished - before.waiting if before.at else 0
    offered = offered_work(now.busy or 0.0, now.ready, slots, answered, growth, unfinished)
    passed = max(0.1, at - before.at)
    request_seconds = now.in_flight * passed / answered if answered else 1.0
    kept = [(then, busy) for then, busy in before.offered if at - MEAN_SECONDS < then < at]
    history = (*kept, (at, offered))
    mean = sum(busy for _then, busy in history) / len(history)
    after = replace(before, at=at, offered=history, requests=requests, waiting=unfinished)
    return after, ObservedLoad(at, offered, mean, waiting * request_seconds / slots)


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
    return PoolLook(tuple(looks), remembered, changes, kind=CapacityPlanKind.MACHINES)


def stored(value: Any) -> dict[str, Any]:
    """A look or what is remembered, as its column keeps it."""
    return asdict(value)
