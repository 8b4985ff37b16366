"""Free cards that are scattered: how many jobs could start now, and the moves that let more of them start."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from capacity.ledger import CardLedger, PoolMachineCards, ledger_of, since_checkpoint
from capacity.models import CardSample, Pool, Workload
from capacity.planning.errors import PlanningError
from capacity.planning.fragments import CardNode, JobMove, PlacedJob, free_nodes, startable
from capacity.states import WorkloadState

SIZES = (1, 2, 4, 8, 16)
"""Cards of the jobs that are counted; larger ones than a machine take whole free machines."""
SAMPLE_EVERY = timedelta(minutes=5)
SAMPLES_KEPT = timedelta(days=30)
LEAST_PAUSE = timedelta(hours=1)
"""Between two plans that nobody asked for: a job that no move helps must not have others moved for ever."""

Blocked = Callable[[Workload], str]
"""Name of a disruption budget that keeps a workload where it is; empty: none does."""


@dataclass(frozen=True)
class RackFragments:
    """Free cards of one rack of a pool, and how many jobs of each size could start there."""

    rack: str
    machines: int
    cards: int
    free: int
    startable: dict[str, int]


@dataclass(frozen=True)
class DefragmentationPlan:
    """Moves of a plan, what they cost in card-seconds, and jobs that could start before and after them."""

    changes: tuple[dict[str, Any], ...] = ()
    freed: tuple[str, ...] = ()
    missing: int = 0
    cost: float = 0.0
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)

    @property
    def gain(self) -> dict[str, Any]:
        return {
            "before": dict(self.before), "after": dict(self.after), "cost": round(self.cost),
            "freed": list(self.freed), "missing": self.missing,
        }  # fmt: skip


def fragments(machines: Iterable[PoolMachineCards]) -> list[RackFragments]:
    by_rack: dict[str, list[PoolMachineCards]] = {}
    for machine in machines:
        by_rack.setdefault(machine.rack, []).append(machine)
    return [
        RackFragments(
            rack=rack,
            machines=len(held),
            cards=sum(machine.cards for machine in held),
            free=sum(len(machine.free) for machine in held),
            startable=_counts(_nodes(held)),
        )
        for rack, held in sorted(by_rack.items())
    ]


def record_fragments(pool: Pool, machines: Iterable[PoolMachineCards], now: datetime) -> None:
    """Keep a sample of each rack every few minutes."""
    samples = CardSample.objects.filter(pool=pool)
    if samples.filter(at__gt=now - SAMPLE_EVERY).exists():
        return
    CardSample.objects.bulk_create(
        CardSample(pool=pool, rack=one.rack, at=now, free=one.free, startable=one.startable)
        for one in fragments(machines)
    )
    samples.filter(at__lt=now - SAMPLES_KEPT).delete()


def plan_defragmentation(
    pool: Pool,
    *,
    cards: int,
    machines: int,
    blocked: Blocked = lambda _workload: "",
    ledger: CardLedger | None = None,
    now: datetime | None = None,
) -> DefragmentationPlan:
    """Free so many more machines of at least so many cards. Raises PlanningError."""
    if machines < 1:
        raise PlanningError("machines", f"{machines} machines are none: ask for one or more.")
    seen = ledger or ledger_of(pool.cluster)
    own = seen.of(pool)
    if not any(machine.cards >= cards for machine in own):
        raise PlanningError("cards", f"No machine of the pool has {cards} cards.")
    kept: dict[int, str] = {}
    while True:
        nodes = _nodes(own, seen, kept=kept, now=now)
        found = free_nodes(nodes, machines, cards)
        moved = [seen.workloads[int(move.job)] for move in found.moves]
        fresh = {one.pk: why for one in moved if one.pk not in kept and (why := blocked(one))}
        if not fresh:
            break
        kept |= fresh
    changes = _changes(own, seen, found.moves)
    after = _after(nodes, found.moves)
    return DefragmentationPlan(
        changes, found.freed, found.missing, found.cost, _counts(nodes), _counts(after)
    )


def is_still_possible(ledger: CardLedger, changes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every workload still holds what a proposal moves, and what it would get is still free."""
    machines = {machine.name: machine for machine in ledger.machines}
    for change in changes:
        before, after = change["before"], change["after"]
        source, target = machines.get(before["machine"]), machines.get(after["machine"])
        if source is None or target is None or not set(after["cards"]) <= set(target.free):
            return False
        holders = [source.holders.get(card) for card in before["cards"]]
        if any(holder is None or holder.pk != change["workload"] for holder in holders):
            return False
    return True


def needed_by_wait(pool: Pool, ledger: CardLedger, now: datetime) -> int:
    """Return the cards of the first workload that waits too long for a machine of its pool; 0: none does."""
    if pool.defragment_after_seconds is None:
        return 0
    before = now - timedelta(seconds=pool.defragment_after_seconds)
    free = sum(len(machine.free) for machine in ledger.of(pool))
    waiting = [
        one.cards
        for one in ledger.workloads.values()
        if one.pool_id == pool.pk
        and one.state == WorkloadState.QUEUED
        and not one.held_by
        and one.state_since <= before
        and one.machines == 1
        and one.cards <= free
    ]
    return min(waiting, default=0)


def is_due(pool: Pool, now: datetime) -> bool:
    """Whether its schedule asks for a plan now."""
    last = pool.defragmented_at
    if pool.defragment_every_hours is None:
        return False
    return last is None or now - last >= timedelta(hours=pool.defragment_every_hours)


def may_plan(pool: Pool, now: datetime) -> bool:
    return pool.defragmented_at is None or now - pool.defragmented_at >= LEAST_PAUSE


def _nodes(
    machines: Iterable[PoolMachineCards],
    ledger: CardLedger | None = None,
    *,
    kept: Iterable[int] = (),
    now: datetime | None = None,
) -> list[CardNode]:
    """Cards of strangers, and those promised to others, are a job that cannot be moved."""
    fixed = set(kept)
    nodes = []
    for machine in machines:
        jobs = [
            PlacedJob(
                name=str(holder.pk),
                cards=len(cards),
                restart_cost=float(_cost(holder, len(cards), now)),
                movable=holder.pk not in fixed and _is_movable(holder, ledger),
            )
            for holder, cards in machine.shares
            if isinstance(holder, Workload)
        ]
        strangers = sum(len(cards) for holder, cards in machine.shares if not isinstance(holder, Workload))
        if strangers and not machine.closed:
            jobs.append(PlacedJob(machine.name, strangers, 0.0, movable=False))
        nodes.append(CardNode(machine.name, machine.cards, tuple(jobs), open=not machine.closed))
    return nodes


def _is_movable(workload: Workload, ledger: CardLedger | None) -> bool:
    is_moving = ledger is not None and workload.pk in ledger.moving
    can_give_way = workload.is_preemptible and (workload.writes_checkpoints or workload.may_lose_work)
    is_alone = workload.machines == 1  # the parts of one over several machines go together
    return can_give_way and is_alone and not is_moving and workload.state == WorkloadState.RUNNING


def _cost(workload: Workload, cards: int, now: datetime | None) -> float:
    """Card-seconds of a restart; with the work since its last checkpoint where it writes none when asked."""
    lost = 0.0 if workload.writes_checkpoints else since_checkpoint(workload, now)
    return cards * (workload.restart_seconds + lost)


def _counts(nodes: Iterable[CardNode]) -> dict[str, int]:
    chosen = list(nodes)
    return {str(size): startable(chosen, size) for size in SIZES}


def _after(nodes: Iterable[CardNode], moves: Iterable[JobMove]) -> list[CardNode]:
    state = {node.name: list(node.jobs) for node in nodes}
    for move in moves:
        job = next(job for job in state[move.source] if job.name == move.job)
        state[move.source].remove(job)
        state[move.target].append(job)
    return [CardNode(node.name, node.cards, tuple(state[node.name]), node.open) for node in nodes]


def _changes(
    machines: Iterable[PoolMachineCards], ledger: CardLedger, moves: Iterable[JobMove]
) -> tuple[dict[str, Any], ...]:
    by_name = {machine.name: machine for machine in machines}
    free = {name: list(machine.free) for name, machine in by_name.items()}
    changes = []
    for move in moves:
        workload, source = ledger.workloads[int(move.job)], by_name[move.source]
        cards = sorted(card for card, holder in source.holders.items() if holder.pk == workload.pk)
        taken, free[move.target] = free[move.target][: move.cards], free[move.target][move.cards :]
        lender = str(source.pool.pk) if source.pool.pk != workload.pool_id else ""
        changes.append(
            {
                "workload": workload.pk,
                "name": workload.name,
                "before": {"machine": move.source, "cards": cards, "lender": lender},
                "after": {"machine": move.target, "cards": taken, "lender": lender},
                "why": "makes_room",
                "lost": round(move.restart_cost),
            }
        )
    return tuple(changes)
