"""Machines of pools with their cards: who holds which, who lent it, and who waits. Nothing is written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any

from django.db.models import Q

from capacity.changes import parts_of
from capacity.models import Allocation, CapacityPlan, CardLayout, Pool, Workload
from capacity.planning.lending import (
    HeldCards,
    LendingMachine,
    LendingPlan,
    LendingPool,
    WaitingWorkload,
    plan_lending,
)
from capacity.states import (
    BY_CLAIMS,
    HOLDING,
    OPEN_LAYOUTS,
    RUNNING,
    CapacityPlanKind,
    Granularity,
    PoolKind,
    PoolMode,
    WorkloadAdmission,
    WorkloadState,
)
from clusters.backends.gpu_names import NVIDIA, is_slice
from clusters.capacities import rooms_of
from clusters.models import Cluster, Deployment, Node, Occupancy, Worker
from clusters.states import NodeOperation, NodeState
from clusters.topology import place_of
from common import clock
from gpu_health.selectors import out_of_service

NOBODYS = "others"
"""Holder of cards that workloads of no pool have."""


@dataclass(frozen=True)
class PoolMachineCards:
    """A machine of a pool. holders: workloads by card. others: cards that somebody else holds."""

    name: str
    pool: Pool
    cards: int
    rack: str = ""
    model: str = ""
    is_simulated: bool = False
    closed: str = ""
    """Code of why nothing is placed there; empty: it is open."""
    others: int = 0
    holders: Mapping[int, Workload] = field(default_factory=dict)
    services: Mapping[int, str] = field(default_factory=dict)
    """Services by card that their workers hold."""
    kept: Mapping[int, int] = field(default_factory=dict)
    """Cards that a plan under way has promised to a workload, by its id."""
    divided: Mapping[int | None, list[dict[str, Any]]] = field(default_factory=dict)
    """Instances of declared cards that are or will be divided: no workload gets them whole. None: those of
    each card of a machine of a cluster."""
    memory_mib: int = 0
    """Of one card; 0: not known."""
    claimable: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Cards that pods claim in parts (DRA), as `Occupancy.devices` has them."""

    @property
    def free(self) -> tuple[int, ...]:
        if self.closed:
            return ()
        taken = {*self.holders, *self.services, *self.kept, *self.divided}
        free = [card for card in range(self.cards) if card not in taken]
        return tuple(free[: max(0, len(free) - self.others)])

    @property
    def shares(self) -> list[tuple[Workload | str, list[int]]]:
        """Return the holders with their cards: workloads, names of services, `others` for strangers."""
        found: dict[Workload | str, list[int]] = {}
        free = set(self.free)
        for card in range(self.cards):
            if holder := self.holders.get(card) or self.services.get(card):
                found.setdefault(holder, []).append(card)
            elif card not in free and card not in self.divided and not self.closed:
                found.setdefault(NOBODYS, []).append(card)
        return list(found.items())


@dataclass(frozen=True)
class CardLedger:
    """Pools of machines of one cluster, their machines, and the workloads that hold or want cards."""

    pools: Mapping[int, Pool]
    machines: tuple[PoolMachineCards, ...]
    workloads: Mapping[int, Workload]
    moving: frozenset[int]
    """Workloads that a plan under way moves."""

    def of(self, pool: Pool) -> list[PoolMachineCards]:
        return [machine for machine in self.machines if machine.pool.pk == pool.pk]

    def held(self) -> list[HeldCards]:
        cards: dict[int, dict[str, list[int]]] = {}
        for machine in self.machines:
            for card, workload in machine.holders.items():
                cards.setdefault(workload.pk, {}).setdefault(machine.name, []).append(card)
        return [
            _held(
                self.workloads[pk],
                [(machine, tuple(sorted(numbers))) for machine, numbers in places.items()],
                is_moving=pk in self.moving,
            )
            for pk, places in cards.items()
        ]

    def limits(self) -> list[LendingPool]:
        """Return the limits of each pool, of which it guarantees no more cards than its machines have now."""
        limits = []
        for pool in self.pools.values():
            has = sum(machine.cards for machine in self.of(pool))
            found = limits_of(pool, has)
            limits.append(replace(found, guarantee=min(found.guarantee, has)))
        return limits

    def waiting(self) -> list[WaitingWorkload]:
        return [
            _waiting(one)
            for one in self.workloads.values()
            if one.state == WorkloadState.QUEUED
            and not one.held_by
            and one.pk not in self.moving
            and self.pools[one.pool_id].state != PoolMode.OFF
        ]

    def rooms(self) -> list[LendingMachine]:
        return [
            LendingMachine(machine.name, str(machine.pool.pk), machine.cards, machine.free)
            for machine in self.machines
        ]

    def plan(self, now: datetime) -> LendingPlan:
        """Raises PlanningError for limits that contradict the machines that there are."""
        return plan_lending(self.rooms(), self.limits(), self.held(), self.waiting(), now.timestamp())


def ledger_of(cluster: Cluster) -> CardLedger:
    rows = Pool.objects.filter(cluster=cluster, admission=WorkloadAdmission.SLIPWAY)
    rows = rows.exclude(kind=PoolKind.SERVING)
    pools = {pool.pk: pool for pool in rows.select_related("team", "cluster").order_by("pk")}
    active = Q(state=WorkloadState.QUEUED) | Q(state__in=HOLDING)
    found = Workload.objects.filter(active, pool__in=pools).select_related("pool", "team")
    workloads = {workload.pk: workload for workload in found}
    holders: dict[str, dict[int, Workload]] = {}
    serving: dict[str, dict[int, str]] = {}
    for one in Allocation.objects.filter(cluster=cluster):
        if one.workload_id in workloads:
            holders.setdefault(one.machine, {})[one.card] = workloads[one.workload_id]
        elif one.service:
            serving.setdefault(one.machine, {})[one.card] = one.service
    kept: dict[str, dict[int, int]] = {}
    moving: set[int] = set()
    running = CapacityPlan.objects.filter(pool__in=pools, state__in=RUNNING)
    for plan in running.exclude(kind=CapacityPlanKind.WORKERS):
        for change in plan.changes:
            moving.add(change["workload"])
            for place in parts_of(change["after"]):
                promised = kept.setdefault(place["machine"], {})
                promised |= dict.fromkeys(place["cards"], change["workload"])
    divided = divided_cards(pools.values())
    machines = [
        replace(
            machine,
            holders=holders.get(machine.name, {}),
            services=serving.get(machine.name, {}),
            others=max(0, machine.others - len(serving.get(machine.name, {}))),
            kept=kept.get(machine.name, {}),
            divided={**divided.get(machine.name, {}), **_claimed(machine)},
        )
        for machine in _machines(cluster, pools.values(), holders)
    ]
    return CardLedger(pools, tuple(machines), workloads, frozenset(moving))


def _claimed(machine: PoolMachineCards) -> dict[int | None, list[dict[str, Any]]]:
    """Return the instances that pods have claimed of its cards."""
    found: dict[int | None, list[dict[str, Any]]] = {}
    for index, card in machine.claimable.items():
        parts = [one for one in card["held"] if one["profile"]]
        if parts:
            found[index] = [
                {
                    "profile": one["profile"],
                    "begin": one["begin"],
                    "name": ", ".join(one["users"]) or one["claim"],
                }
                for one in parts
            ]
    return found


def divided_cards(pools: Iterable[Pool]) -> dict[str, dict[int | None, list[dict[str, Any]]]]:
    """Return the instances of divided cards by machine and card, as they are now or will be."""
    rows = CardLayout.objects.filter(pool__in=list(pools), state__in=(*OPEN_LAYOUTS, "applied"))
    rows = rows.exclude(config=BY_CLAIMS)
    found: dict[str, dict[int | None, list[dict[str, Any]]]] = {}
    for row in rows.order_by("pk"):
        cards = found.setdefault(row.machine, {})
        if row.instances or row.state in OPEN_LAYOUTS:
            cards[row.card] = row.instances
        else:
            cards.pop(row.card, None)
    return found


def gpus_of_workers(cluster: Cluster, machines: Iterable[str]) -> dict[str, tuple[str, str, int]]:
    """Return by id the service, the machine and the GPUs of each worker that stands on one of these."""
    rows = Worker.objects.filter(deployment__cluster=cluster, node__name__in=list(machines))
    found = {}
    for worker in rows.select_related("deployment", "node"):
        cards, node = gpus_of(worker.deployment), worker.node
        if cards and node is not None:
            found[worker.uid] = (worker.deployment.service, node.name, cards)
    return found


def gpus_of(deployment: Deployment) -> int:
    """Return the whole GPUs that each of its workers holds."""
    resource = deployment.resources.get("gpu_resource") or NVIDIA
    if deployment.device == "cpu" or is_slice(resource):
        return 0
    return int(deployment.resources.get("gpus_per_worker", 1))


def machine_names(pool: Pool) -> list[str]:
    """Names of the machines that a pool, saved or not, owns by its labels and its inventory."""
    declared = [one["machine"] for one in pool.inventory]
    nodes = Node.objects.filter(cluster=pool.cluster).exclude(state=NodeState.GONE) if pool.selector else ()
    return declared + [node.name for node in nodes if _matches(pool, node.labels)]


def machines_of(pool: Pool) -> list[PoolMachineCards]:
    """Return the machines of a pool, saved or not, without their holders."""
    return _machines(pool.cluster, [pool], {})


def limits_of(pool: Pool, cards: int) -> LendingPool:
    return LendingPool(
        str(pool.pk),
        cards if pool.guarantee is None else pool.guarantee,
        pool.lending_limit,
        pool.borrowing_limit,
        pool.priority,
        pool.granularity == Granularity.MACHINE,
    )


def _matches(pool: Pool, labels: Mapping[str, str]) -> bool:
    return bool(pool.selector) and all(labels.get(key) == value for key, value in pool.selector.items())


def _machines(
    cluster: Cluster, pools: Iterable[Pool], holders: Mapping[str, Mapping[int, Workload]]
) -> list[PoolMachineCards]:
    chosen = list(pools)
    found: list[PoolMachineCards] = []
    nodes = {node.name: node for node in Node.objects.filter(cluster=cluster).exclude(state=NodeState.GONE)}
    ill = {incident.node_id for incident in out_of_service([node.pk for node in nodes.values()])}
    occupancy = Occupancy.objects.filter(cluster=cluster).first()
    devices = (occupancy.devices or {}) if occupancy else {}
    for room in rooms_of(cluster, occupancy):
        node = nodes[room.name]
        pool = next((pool for pool in chosen if _matches(pool, node.labels)), None)
        # Slices and shares are counted as many cards: none of them is a whole one.
        cards = room.cards if room.sharing else sum(room.allocatable.values())
        claimable = {one["index"]: one for one in devices.get(room.name, ()) if one["room"]}
        first = next(iter(claimable.values()), None)
        cards = max(claimable) + 1 if claimable else cards
        if pool is None or not cards:
            continue
        held = sum(count for resource in room.used.values() for count in resource.values())
        if claimable:
            held = sum(any(not part["profile"] for part in card["held"]) for card in claimable.values())
        # The count of pods comes late: what starts may not be in it yet, and strangers would seem to be us.
        ours = [one for one in holders.get(room.name, {}).values() if one.state != WorkloadState.STARTING]
        found.append(
            PoolMachineCards(
                name=room.name,
                pool=pool,
                cards=cards,
                rack=place_of(node.labels).get("rack", ""),
                model=first["product"] if first else room.gpu_type,
                closed=_why_closed(node, is_ill=node.pk in ill) or ("shared" if room.sharing else ""),
                others=max(0, held - len(ours)),
                memory_mib=first["memory_mib"] if first else room.memory_bytes // 2**20,
                claimable=claimable,
            )
        )
    closed = next((why for node in nodes.values() if (why := _why_closed(node, is_ill=node.pk in ill))), "")
    for pool in chosen:
        found += [
            PoolMachineCards(
                name=one["machine"],
                pool=pool,
                cards=one["cards"],
                rack=one.get("rack", ""),
                model=one.get("model", ""),
                is_simulated=True,
                closed=closed,
            )
            for one in pool.inventory
        ]
    return sorted(found, key=lambda machine: machine.name)


def _why_closed(node: Node, *, is_ill: bool) -> str:
    if is_ill:
        return "incident"
    if node.state != NodeState.READY:
        return "not_ready"
    return "cordoned" if node.is_cordoned or node.operation != NodeOperation.NONE else ""


def _held(workload: Workload, places: Sequence[tuple[str, tuple[int, ...]]], *, is_moving: bool) -> HeldCards:
    """Idle is not known of a process: whoever holds cards counts as at work."""
    started = workload.started_at or workload.state_since
    return HeldCards(
        name=str(workload.pk),
        pool=str(workload.pool_id),
        machine=places[0][0],
        cards=places[0][1],
        rest=tuple(places[1:]),
        priority=workload.priority,
        checkpoint=since_checkpoint(workload) if workload.writes_checkpoints else None,
        lossy=workload.may_lose_work,
        preemptible=workload.is_preemptible,
        moving=is_moving or workload.state != WorkloadState.RUNNING,
        started=started.timestamp(),
        ends=ends_at(workload),
    )


def since_checkpoint(workload: Workload, now: datetime | None = None) -> float:
    """Return the seconds of work that are in no checkpoint yet."""
    began = workload.started_at or workload.state_since
    kept = workload.checkpoint_at if workload.checkpoint_at and workload.checkpoint_at > began else began
    return max(0.0, ((now or clock.now()) - kept).total_seconds())


def ends_at(workload: Workload) -> float:
    """Return when a running workload is expected to end, in seconds since 1970; infinity: nobody knows."""
    if workload.expected_seconds is None or workload.started_at is None:
        return inf
    return workload.started_at.timestamp() + max(0.0, workload.expected_seconds - workload.worked_seconds)


def _waiting(workload: Workload) -> WaitingWorkload:
    seconds = inf
    if workload.expected_seconds is not None:
        again = workload.restart_seconds if workload.runs else 0
        seconds = max(0.0, workload.expected_seconds - workload.worked_seconds) + again
    can_give_way = workload.is_preemptible and (workload.writes_checkpoints or workload.may_lose_work)
    return WaitingWorkload(
        name=str(workload.pk),
        pool=str(workload.pool_id),
        cards=workload.cards,
        machines=workload.machines,
        priority=workload.priority,
        since=workload.created_at.timestamp(),
        seconds=seconds,
        gives_way=can_give_way,
    )
