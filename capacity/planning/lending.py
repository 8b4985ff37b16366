"""Pools that lend cards to each other: who starts where, who gives way, who waits, and for how long."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

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
    it is expected to end, in seconds. moving: it starts, or gives way already. rest: machines after the first
    with its cards there, of a workload over several.
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
    rest: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """Return its cards by machine."""
        return dict(((self.machine, self.cards), *self.rest))

    @property
    def size(self) -> int:
        return sum(len(cards) for cards in self.places.values())


@dataclass(frozen=True)
class WaitingWorkload:
    """A workload that wants cards of one machine, or of each of several: all at once, or none.

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
    machines: int = 1


@dataclass(frozen=True)
class CardGrant:
    """Cards for a workload. lender: the pool that owns them, empty where it is the workload's own. rest:
    those of further machines."""

    workload: str
    machine: str
    cards: tuple[int, ...]
    lender: str = ""
    rest: tuple["CardGrant", ...] = ()

    @property
    def parts(self) -> tuple["CardGrant", ...]:
        return (replace(self, rest=()), *self.rest)


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
            self._count_all(one)
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
            for machine, numbers in one.places.items():
                if machine not in self.machines:
                    raise PlanningError("machine", f"{one.name} holds cards of {machine}, which is unknown.")
                cards = {(machine, card) for card in numbers}
                free = {(machine, card) for card in self.machines[machine].free}
                if cards & (taken | free):
                    raise PlanningError("cards", f"A card of {machine} is held twice.")
                taken |= cards
        for workload in self.waiting:
            for wanted in ("cards", "machines"):
                if (count := getattr(workload, wanted)) < 1:
                    raise PlanningError(
                        wanted, f"{workload.name} wants {count} {wanted}: ask for one or more."
                    )

    def _count(self, pool: str, machine: str, cards: int) -> None:
        if (owner := self.machines[machine].pool) == pool:
            self.own[pool] += cards
        else:
            self.borrowed[pool] += cards
            self.lent[owner] += cards

    def _count_all(self, one: HeldCards, sign: int = 1) -> None:
        for machine, cards in one.places.items():
            self._count(one.pool, machine, sign * len(cards))

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
        """Take free cards of as many machines as it wants, or none at all."""
        undo = self._books()
        parts: list[CardGrant] = []
        while len(parts) < workload.machines:
            if (part := self._free_part(workload, {one.machine for one in parts})) is None:
                self._restore(undo)
                return None
            parts.append(part)
        return replace(parts[0], rest=tuple(parts[1:]))

    def _free_part(self, workload: WaitingWorkload, chosen: Collection[str]) -> CardGrant | None:
        """The fullest machine that takes it, its own pool's first. Who waits lends nothing meanwhile."""
        fits = [
            (machine.pool != workload.pool, len(self.free[name]), name)
            for name, machine in self.machines.items()
            if name not in chosen
            and len(self.free[name]) >= self._need(workload, machine)
            and (machine.pool == workload.pool or machine.pool not in self.queued)
            and self._may_hold(workload, machine)
            and self._ends_in_time(workload, name)
        ]
        return self._take(workload, self.machines[min(fits)[2]]) if fits else None

    def _books(self) -> tuple[Any, ...]:
        free = {name: list(cards) for name, cards in self.free.items()}
        return free, dict(self.own), dict(self.borrowed), dict(self.lent), dict(self.held)

    def _restore(self, books: tuple[Any, ...]) -> None:
        self.free, self.own, self.borrowed, self.lent, self.held = books

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
        """Free cards where there are some, and else those of whoever gives way: all of them, or none."""
        undo = self._books()
        parts: list[CardGrant] = []
        victims: list[HeldCards] = []
        lost = 0.0
        while len(parts) < workload.machines:
            chosen = {one.machine for one in parts}
            if (part := self._free_part(workload, chosen)) is not None:
                parts.append(part)
                continue
            if (found := self._cheapest(workload, chosen)) is None:
                self._restore(undo)
                return None
            for name in found.victims:
                victim = self.held[name]
                victims.append(victim)
                self._count_all(victim, -1)
                for machine, cards in victim.places.items():
                    self.free[machine] += cards
                self.held[name] = replace(victim, cards=(), rest=(), moving=True)
            lost += found.lost
            parts.append(self._take(workload, self.machines[found.node]))
        # The victims still hold them: whatever is left over is free once they are gone.
        self.free |= {machine: [] for victim in victims for machine in victim.places}
        grant = replace(parts[0], rest=tuple(parts[1:]))
        return Preemption(tuple(one.name for one in victims), grant, lost)

    def _cheapest(self, workload: WaitingWorkload, chosen: Collection[str]) -> Reclaim | None:
        """Choose among its own machines and those of others with borrowers on them, never a lender's own."""
        found: list[tuple[tuple[float, float, float, str], Reclaim]] = []
        for name, machine in self.machines.items():
            need = self._need(workload, machine)
            is_own = machine.pool == workload.pool
            if name in self.reserved or name in chosen or workload.cards > machine.cards:
                continue
            candidates = [
                self._running(one, name)
                for one in self.held.values()
                if name in one.places and not one.moving and (is_own or one.pool != machine.pool)
            ]
            owner = is_own and self.own[workload.pool] + need <= self.pools[workload.pool].guarantee
            one = reclaim(
                candidates, {name: len(self.free[name])}, need, workload.priority, self.now, owner=owner
            )
            if one is None or not one.victims:
                continue
            if self._may_hold(workload, machine, coming_back=self._coming_back(one.victims, machine.pool)):
                found.append(((not is_own, one.lost, len(one.victims), name), one))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def _coming_back(self, victims: Iterable[str], lender: str) -> int:
        """Return the cards of the lender's machines that these hold, and give back."""
        held = [self.held[name] for name in victims]
        return sum(
            len(cards)
            for one in held
            if one.pool != lender
            for machine, cards in one.places.items()
            if self.machines[machine].pool == lender
        )

    def _running(self, one: HeldCards, machine: str) -> RunningWorkload:
        cards = len(one.places[machine])
        return RunningWorkload(
            name=one.name,
            node=machine,
            cards=cards,
            elsewhere=one.size - cards,
            idle=one.idle,
            borrowed=self.machines[machine].pool != one.pool,
            priority=one.priority,
            checkpoint=one.checkpoint,
            lossy=one.lossy,
            started=one.started,
            preemptible=one.preemptible,
        )

    def _reserve(self, workload: WaitingWorkload) -> str:
        """Keep the machines of its pool where it can start first; shorter ones may use them until then."""
        own = [m for m in self.machines.values() if m.pool == workload.pool and m.name not in self.reserved]
        able = [machine for machine in own if workload.cards <= machine.cards]
        if len(able) < workload.machines:
            big_enough = sum(workload.cards <= machine.cards for machine in self.machines.values())
            return "no_room" if big_enough >= workload.machines else "too_large"
        first = sorted((self._free_at(workload, m), -len(self.free[m.name]), m.name) for m in able)
        chosen = first[: workload.machines]
        self.reserved |= {name: (workload.name, chosen[-1][0]) for _at, _free, name in chosen}
        return "reserved"

    def _free_at(self, workload: WaitingWorkload, machine: LendingMachine) -> float:
        room, need = len(self.free[machine.name]), self._need(workload, machine)
        if room >= need:
            return self.now
        holders = [one for one in self.held.values() if machine.name in one.places]
        for one in sorted(holders, key=lambda one: one.ends):
            room += len(one.places[machine.name])
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
