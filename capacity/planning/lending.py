"""Pools that lend cards to each other: who starts where, who gives way, who waits, and for how long."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from capacity.planning.errors import PlanningError
from capacity.planning.reclaiming import Reclaim, RunningWorkload, reclaim


@dataclass(frozen=True)
class LendingPool:
    """Limits of a pool, in cards.

    guarantee: which it gets back whenever it needs them. lending: that others may hold of its machines at
    most. borrowing: that it may hold of others' machines. None: without a limit. whole: its workloads hold
    whole machines.
    """

    name: str
    guarantee: int
    lending: int | None = None
    borrowing: int | None = None
    priority: int = 0
    whole: bool = False


@dataclass(frozen=True)
class LendingMachine:
    """A machine of a pool. free: numbers of its cards that nobody holds; none where it is closed."""

    name: str
    pool: str
    cards: int
    free: tuple[int, ...]


@dataclass(frozen=True)
class HeldCards:
    """A workload with the cards that it holds.

    checkpoint: seconds since its last one, None: it writes none. lossy: it may end without one. ends: when
    it is expected to end, in seconds. moving: it starts, or gives way already.
    """

    name: str
    pool: str
    machine: str
    cards: tuple[int, ...]
    priority: int = 0
    checkpoint: float | None = None
    lossy: bool = False
    preemptible: bool = True
    idle: bool = False
    moving: bool = False
    started: float = 0.0
    ends: float = inf


@dataclass(frozen=True)
class WaitingWorkload:
    """A workload that wants cards of one machine.

    seconds: for which it will hold them, infinity where nobody knows. gives_way: it can be preempted, without
    which it borrows nothing.
    """

    name: str
    pool: str
    cards: int
    priority: int = 0
    since: float = 0.0
    seconds: float = inf
    gives_way: bool = True


@dataclass(frozen=True)
class CardGrant:
    """Cards for a workload. lender: the pool that owns them, empty where it is the workload's own."""

    workload: str
    machine: str
    cards: tuple[int, ...]
    lender: str = ""


@dataclass(frozen=True)
class Preemption:
    """Workloads that give way, and the cards that another one gets then. lost: work, in card-seconds."""

    victims: tuple[str, ...]
    grant: CardGrant
    lost: float


@dataclass(frozen=True)
class LendingPlan:
    """Plan of a pool's cards.

    `starts`: workloads that get free cards. `reserved`: by machine, the workload that it is kept for and from
    when. `held`: by waiting workload, the code of its reason."""

    starts: tuple[CardGrant, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    reserved: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)


def plan_lending(
    machines: Iterable[LendingMachine],
    pools: Iterable[LendingPool],
    held: Iterable[HeldCards],
    waiting: Iterable[WaitingWorkload],
    now: float,
) -> LendingPlan:
    """Serve the waiting by priority: own free cards, borrowed ones, preemption, and else a reservation."""
    return _Round(machines, pools, held, waiting, now).plan()


class _Round:
    def __init__(
        self,
        machines: Iterable[LendingMachine],
        pools: Iterable[LendingPool],
        held: Iterable[HeldCards],
        waiting: Iterable[WaitingWorkload],
        now: float,
    ) -> None:
        self.now = now
        chosen, limits = sorted(machines, key=lambda machine: machine.name), list(pools)
        check_pools(chosen, limits)
        self.machines = {machine.name: machine for machine in chosen}
        self.pools = {pool.name: pool for pool in limits}
        self.held = {one.name: one for one in held}
        self.waiting = list(waiting)
        self._check_holders()
        self.free = {name: list(machine.free) for name, machine in self.machines.items()}
        self.own = dict.fromkeys(self.pools, 0)
        self.borrowed = dict.fromkeys(self.pools, 0)
        self.lent = dict.fromkeys(self.pools, 0)
        for one in self.held.values():
            self._count(one.pool, one.machine, len(one.cards))
        self.queued = {workload.pool for workload in self.waiting}
        self.reserved: dict[str, tuple[str, float]] = {}

    def plan(self) -> LendingPlan:
        starts, preemptions, why = [], [], {}
        rank = {name: pool.priority for name, pool in self.pools.items()}
        for workload in sorted(self.waiting, key=lambda w: (-w.priority, -rank[w.pool], w.since, w.name)):
            if grant := self._on_free_cards(workload):
                starts.append(grant)
            elif preemption := self._by_preemption(workload):
                preemptions.append(preemption)
            else:
                why[workload.name] = self._reserve(workload)
        return LendingPlan(tuple(starts), tuple(preemptions), self.reserved, why)

    def _check_holders(self) -> None:
        everyone = [(one.name, one.pool) for one in self.held.values()]
        for name, pool in everyone + [(one.name, one.pool) for one in self.waiting]:
            if pool not in self.pools:
                raise PlanningError("pool", f"{name} is of the pool {pool}, which is unknown.")
        taken: set[tuple[str, int]] = set()
        for one in self.held.values():
            if one.machine not in self.machines:
                raise PlanningError("machine", f"{one.name} holds cards of {one.machine}, which is unknown.")
            cards = {(one.machine, card) for card in one.cards}
            free = {(one.machine, card) for card in self.machines[one.machine].free}
            if cards & (taken | free):
                raise PlanningError("cards", f"A card of {one.machine} is held twice.")
            taken |= cards
        for workload in self.waiting:
            if workload.cards < 1:
                raise PlanningError(
                    "cards", f"{workload.name} wants {workload.cards} cards: ask for one or more."
                )

    def _count(self, pool: str, machine: str, cards: int) -> None:
        if (owner := self.machines[machine].pool) == pool:
            self.own[pool] += cards
        else:
            self.borrowed[pool] += cards
            self.lent[owner] += cards

    def _need(self, workload: WaitingWorkload, machine: LendingMachine) -> int:
        return machine.cards if self.pools[workload.pool].whole else workload.cards

    def _may_hold(self, workload: WaitingWorkload, machine: LendingMachine, coming_back: int = 0) -> bool:
        """Limits of both pools. coming_back: cards that others give back to the lender for it."""
        if workload.cards > machine.cards:
            return False
        if machine.pool == workload.pool:
            return True
        pool, lender = self.pools[workload.pool], self.pools[machine.pool]
        need = self._need(workload, machine)
        return (
            workload.gives_way
            and (pool.borrowing is None or self.borrowed[pool.name] + need <= pool.borrowing)
            and (lender.lending is None or self.lent[lender.name] + need - coming_back <= lender.lending)
        )

    def _on_free_cards(self, workload: WaitingWorkload) -> CardGrant | None:
        """The fullest machine that takes it, its own pool's first. Who waits lends nothing meanwhile."""
        fits = [
            (machine.pool != workload.pool, len(self.free[name]), name)
            for name, machine in self.machines.items()
            if len(self.free[name]) >= self._need(workload, machine)
            and (machine.pool == workload.pool or machine.pool not in self.queued)
            and self._may_hold(workload, machine)
            and self._ends_in_time(workload, name)
        ]
        return self._take(workload, self.machines[min(fits)[2]]) if fits else None

    def _ends_in_time(self, workload: WaitingWorkload, machine: str) -> bool:
        reserved = self.reserved.get(machine)
        if reserved is None:
            return True
        return isfinite(workload.seconds) and self.now + workload.seconds <= reserved[1] < inf

    def _take(self, workload: WaitingWorkload, machine: LendingMachine) -> CardGrant:
        need = self._need(workload, machine)
        cards, self.free[machine.name] = self.free[machine.name][:need], self.free[machine.name][need:]
        self._count(workload.pool, machine.name, need)
        lender = machine.pool if machine.pool != workload.pool else ""
        return CardGrant(workload.name, machine.name, tuple(sorted(cards)), lender)

    def _by_preemption(self, workload: WaitingWorkload) -> Preemption | None:
        """On its own machines, and among borrowers on those of others: never of a lender itself."""
        found: list[tuple[tuple[float, float, float, str], Reclaim]] = []
        for name, machine in self.machines.items():
            need = self._need(workload, machine)
            is_own = machine.pool == workload.pool
            if name in self.reserved or workload.cards > machine.cards:
                continue
            candidates = [
                self._running(one)
                for one in self.held.values()
                if one.machine == name and not one.moving and (is_own or one.pool != machine.pool)
            ]
            owner = is_own and self.own[workload.pool] + need <= self.pools[workload.pool].guarantee
            one = reclaim(
                candidates, {name: len(self.free[name])}, need, workload.priority, self.now, owner=owner
            )
            if one is None or not one.victims:
                continue
            back = sum(len(self.held[v].cards) for v in one.victims if self.held[v].pool != machine.pool)
            if self._may_hold(workload, machine, coming_back=back):
                found.append(((not is_own, one.lost, len(one.victims), name), one))
        if not found:
            return None
        _, best = min(found, key=lambda pair: pair[0])
        for name in best.victims:
            victim = self.held[name]
            self._count(victim.pool, victim.machine, -len(victim.cards))
            self.free[victim.machine] += victim.cards
            self.held[name] = replace(victim, cards=(), moving=True)
        grant = self._take(workload, self.machines[best.node])
        # Its victims still hold them: whatever is left over is free once they are gone.
        self.free[best.node] = [] if best.victims else self.free[best.node]
        return Preemption(best.victims, grant, best.lost)

    def _running(self, one: HeldCards) -> RunningWorkload:
        return RunningWorkload(
            name=one.name,
            node=one.machine,
            cards=len(one.cards),
            idle=one.idle,
            borrowed=self.machines[one.machine].pool != one.pool,
            priority=one.priority,
            checkpoint=one.checkpoint,
            lossy=one.lossy,
            started=one.started,
            preemptible=one.preemptible,
        )

    def _reserve(self, workload: WaitingWorkload) -> str:
        """Keep the machine of its pool where it can start first; shorter ones may use it until then."""
        own = [m for m in self.machines.values() if m.pool == workload.pool and m.name not in self.reserved]
        able = [machine for machine in own if workload.cards <= machine.cards]
        if not able:
            big_enough = any(workload.cards <= machine.cards for machine in self.machines.values())
            return "no_room" if big_enough else "too_large"
        at, _, name = min((self._free_at(workload, m), -len(self.free[m.name]), m.name) for m in able)
        self.reserved[name] = (workload.name, at)
        return "reserved"

    def _free_at(self, workload: WaitingWorkload, machine: LendingMachine) -> float:
        room, need = len(self.free[machine.name]), self._need(workload, machine)
        holders = [one for one in self.held.values() if one.machine == machine.name]
        for one in sorted(holders, key=lambda one: one.ends):
            room += len(one.cards)
            if room >= need:
                return max(one.ends, self.now)
        return inf


def check_pools(machines: Iterable[LendingMachine], pools: Iterable[LendingPool]) -> None:
    """Raise PlanningError for limits that contradict each other or the machines."""
    cards: dict[str, int] = {}
    names: set[str] = set()
    for machine in machines:
        if machine.name in names:
            raise PlanningError("machines", f"{machine.name} stands twice.")
        names.add(machine.name)
        if not set(machine.free) <= set(range(machine.cards)):
            raise PlanningError(
                "cards", f"{machine.name} has the cards 0 to {machine.cards - 1} and no other."
            )
        cards[machine.pool] = cards.get(machine.pool, 0) + machine.cards
    for pool in pools:
        has = cards.get(pool.name, 0)
        for limit in ("guarantee", "lending", "borrowing"):
            value = getattr(pool, limit)
            if value is not None and value < 0:
                raise PlanningError(limit, f"{pool.name} has a limit of {value} cards: give 0 or more.")
        if pool.guarantee > has:
            raise PlanningError(
                "guarantee", f"{pool.name} is guaranteed {pool.guarantee} cards; its machines have {has}."
            )
