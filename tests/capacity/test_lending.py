"""Pools lend cards to each other over ten thousand worlds that nobody chose by hand."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from random import Random

import pytest

from capacity.planning.errors import PlanningError
from capacity.planning.lending import (
    HeldCards,
    LendingMachine,
    LendingPlan,
    LendingPool,
    WaitingWorkload,
    plan_lending,
)

POOLS = ("training", "small")


class Cluster:
    """A world by its seed: two pools, machines, holders and a queue, and time that passes in it."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.cards = {f"m{index}": random.choice([2, 4, 8]) for index in range(random.randint(2, 4))}
        self.owner = {name: random.choice(POOLS) for name in self.cards}
        self.pools = [
            LendingPool(
                name,
                guarantee=random.randint(0, sum(c for m, c in self.cards.items() if self.owner[m] == name)),
                lending=random.choice([None, 0, 2, 8]),
                borrowing=random.choice([None, 0, 4]),
                priority=random.randint(0, 1),
                whole=name == "training" and random.random() < 0.5,
            )
            for name in POOLS
        ]
        self.now = 0.0
        self.held: dict[str, HeldCards] = {}
        self.jobs = {
            f"j{index:02}": WaitingWorkload(
                f"j{index:02}",
                random.choice(POOLS),
                random.choice([1, 1, 2, 4, 8]),
                random.randint(0, 2),
                float(random.randint(0, 5)),
                random.choice([5.0, 30.0, inf]),
                random.random() < 0.8,
                machines=random.choice([1, 1, 1, 2]),
            )
            for index in range(random.randint(2, 9))
        }
        self.left = {name: self.random.randint(1, 6) for name in self.jobs}
        """Rounds that each still has to work."""
        self.preempted: set[str] = set()

    @property
    def machines(self) -> list[LendingMachine]:
        taken = set(_cards(self.held.values()))
        return [
            LendingMachine(
                name, self.owner[name], cards, tuple(c for c in range(cards) if (name, c) not in taken)
            )
            for name, cards in self.cards.items()
        ]

    def waiting(self) -> list[WaitingWorkload]:
        return [
            job
            for name, job in self.jobs.items()
            if name not in self.held and self.left[name] and job.since <= self.now
        ]

    def plan(self) -> LendingPlan:
        return plan_lending(self.machines, self.pools, self.held.values(), self.waiting(), self.now)

    def apply(self, plan: LendingPlan) -> None:
        for preemption in plan.preemptions:
            for victim in preemption.victims:
                del self.held[victim]
                self.preempted.add(victim)
        for grant in [*plan.starts, *(one.grant for one in plan.preemptions)]:
            job = self.jobs[grant.workload]
            self.held[job.name] = HeldCards(
                job.name, job.pool, grant.machine, grant.cards, job.priority,
                checkpoint=0.0 if job.gives_way else None, preemptible=job.gives_way, started=self.now,
                ends=self.now + job.seconds, rest=tuple((one.machine, one.cards) for one in grant.rest),
            )  # fmt: skip

    def pass_(self) -> None:
        for name in list(self.held):
            self.left[name] -= 1
            if not self.left[name]:
                del self.held[name]
        self.now += 1

    def check(self, plan: LendingPlan) -> None:
        """No card twice, limits kept, nobody preempted for a lower one or within its guarantee's machines."""
        before, after = dict(self.held), self
        pools = {pool.name: pool for pool in self.pools}
        lender_waits = {job.pool for job in self.waiting()}
        self.apply(plan)
        cards = _cards(after.held.values())
        assert len(cards) == len(set(cards)), "a card is held twice"
        for preemption in plan.preemptions:
            asks = self.jobs[preemption.grant.workload]
            for name in preemption.victims:
                victim = before[name]
                assert victim.preemptible
                owners = {self.owner[machine] for machine in victim.places}
                within = {victim.pool} & owners and (asks.pool != victim.pool)
                assert not within or len(owners) > 1, "the owner of its machines keeps them"
                assert victim.priority < asks.priority or (asks.pool in owners and asks.pool != victim.pool)
        for grant in plan.starts:
            assert not {one.lender for one in grant.parts} & lender_waits, "who waits lends nothing"
        grants = [*plan.starts, *(one.grant for one in plan.preemptions)]
        for grant in grants:
            job = self.jobs[grant.workload]
            assert len({one.machine for one in grant.parts}) == job.machines, "all at once, or none"
        for grant in [part for one in grants for part in one.parts]:
            job, owner = self.jobs[grant.workload], self.owner[grant.machine]
            assert len(grant.cards) == (self.cards[grant.machine] if pools[job.pool].whole else job.cards)
            if owner != job.pool:
                borrowed = sum(
                    one.pool == job.pool != self.owner[machine]
                    for one in self.held.values()
                    for machine, _card in _cards([one])
                )
                lent = sum(
                    one.pool != owner and self.owner[machine] == owner
                    for one in self.held.values()
                    for machine, _card in _cards([one])
                )
                borrowing, lending = pools[job.pool].borrowing, pools[owner].lending
                assert job.gives_way
                assert borrowing is None or borrowed <= borrowing
                assert lending is None or lent <= lending


def _cards(held: Iterable[HeldCards]) -> list[tuple[str, int]]:
    return [(machine, card) for one in held for machine, cards in one.places.items() for card in cards]


@pytest.mark.parametrize("worlds", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_in_random_worlds_no_card_is_held_twice_and_no_limit_broken(worlds: int) -> None:
    preempted = 0
    for seed in range(worlds):
        world = Cluster(seed)
        world.now = 9.0
        first = world.plan()
        assert world.plan() == first, "the same input gives the same plan"
        world.check(first)
        world.now, world.jobs["late"] = 10.0, WaitingWorkload("late", "training", 2, priority=3)
        world.left["late"] = 1
        plan = world.plan()
        preempted += len(plan.preemptions)
        start = dict(world.held)
        world.check(plan)
        # Undo: whoever was started goes, whoever gave way gets its cards back.
        for grant in [*plan.starts, *(one.grant for one in plan.preemptions)]:
            del world.held[grant.workload]
        back = {name: one for name, one in start.items() if name not in world.held}
        assert {name for one in plan.preemptions for name in one.victims} == set(back)
        world.held |= back
        assert world.held == start
    assert preempted > worlds // 20, "the worlds had something to preempt"


@pytest.mark.parametrize("worlds", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_whoever_gave_way_goes_on_later_and_all_work_ends(worlds: int) -> None:
    resumed = 0
    for seed in range(worlds):
        world = Cluster(seed)
        possible = {
            name
            for name, job in world.jobs.items()
            if sum(job.cards <= cards and world.owner[m] == job.pool for m, cards in world.cards.items())
            >= job.machines
        }
        for _round in range(200):
            world.check(world.plan())
            resumed += len(world.preempted & world.held.keys())
            world.preempted -= world.held.keys()
            world.pass_()
            if not any(world.left[name] for name in possible):
                break
        assert not any(world.left[name] for name in possible), f"seed {seed}: a workload waits for ever"
    assert resumed > worlds // 12


def _two(**training: object) -> list[LendingPool]:
    return [replace(LendingPool("training", 8, whole=True), **training), LendingPool("small", 4)]  # type: ignore[arg-type]


ROOM = [LendingMachine("a", "training", 8, tuple(range(8))), LendingMachine("b", "small", 4, (0, 1, 2, 3))]


def test_small_jobs_borrow_an_idle_machine_and_give_it_back_to_its_owner() -> None:
    small = WaitingWorkload("small", "small", 4)
    more = WaitingWorkload("more", "small", 2)
    plan = plan_lending(ROOM, _two(), [], [small, more], 0)
    assert {(g.workload, g.machine, g.lender) for g in plan.starts} == {
        ("small", "a", "training"),
        ("more", "b", ""),
    }

    held = [HeldCards("more", "small", "a", (0, 1), priority=9, checkpoint=3.0, started=0.0)]
    room = [replace(ROOM[0], free=tuple(range(2, 8))), ROOM[1]]
    owner = plan_lending(room, _two(), held, [WaitingWorkload("big", "training", 8)], 10)
    assert [(one.victims, one.grant.cards, one.lost) for one in owner.preemptions] == [
        (("more",), tuple(range(8)), 6.0)
    ]


def test_a_workload_that_writes_no_checkpoint_neither_borrows_nor_gives_way_unless_its_policy_says_so() -> (
    None
):
    stubborn = WaitingWorkload("stubborn", "small", 8, gives_way=False)
    assert plan_lending(ROOM, _two(), [], [stubborn], 0).held == {"stubborn": "no_room"}
    held = HeldCards("old", "training", "a", tuple(range(8)), started=0.0)
    full = [replace(ROOM[0], free=()), ROOM[1]]
    urgent = [WaitingWorkload("urgent", "training", 8, priority=5)]
    assert not plan_lending(full, _two(), [held], urgent, 100).preemptions
    lossy = plan_lending(full, _two(), [replace(held, lossy=True)], urgent, 100)
    assert lossy.preemptions[0].lost == 800


def test_a_workload_over_two_machines_gets_all_of_its_cards_at_once_or_none() -> None:
    machines = [LendingMachine(name, "training", 8, tuple(range(8))) for name in "ab"]
    pool = [LendingPool("training", 16)]
    gang = WaitingWorkload("gang", "training", 8, priority=1, machines=2)
    (grant,) = plan_lending(machines, pool, [], [gang], 0).starts
    assert [(one.machine, len(one.cards)) for one in grant.parts] == [("a", 8), ("b", 8)]

    old = HeldCards("old", "training", "b", tuple(range(8)), checkpoint=5.0, ends=60.0)
    half = [machines[0], replace(machines[1], free=())]
    (freed,) = plan_lending(half, pool, [old], [gang], 0).preemptions
    assert (freed.victims, freed.lost, len(freed.grant.parts)) == (("old",), 40.0, 2)

    plan = plan_lending(half, pool, [replace(old, preemptible=False)], [gang], 0)
    assert not plan.starts, "half of it holds nothing"
    assert plan.reserved == {"a": ("gang", 60.0), "b": ("gang", 60.0)}

    both = HeldCards("gang", "training", "a", tuple(range(8)), checkpoint=2.0, rest=(("b", tuple(range(8))),))
    full = [replace(one, free=()) for one in machines]
    (freed,) = plan_lending(full, pool, [both], [WaitingWorkload("urgent", "training", 1, 5)], 0).preemptions
    assert (freed.victims, freed.lost) == (("gang",), 32.0), "whoever spans machines gives way on all of them"


def test_short_work_fills_a_reserved_machine_only_if_it_ends_in_time() -> None:
    half = [LendingMachine("b", "small", 4, (2, 3))]
    held = [HeldCards("now", "small", "b", (0, 1), ends=100.0)]
    pool = [LendingPool("small", 4)]
    large = WaitingWorkload("large", "small", 4, since=1)
    short, long = (WaitingWorkload(n, "small", 1, since=2, seconds=s) for n, s in (("s", 50), ("x", 500)))
    plan = plan_lending(half, pool, held, [large, short, long], 10)
    assert [grant.workload for grant in plan.starts] == ["s"]
    assert plan.reserved == {"b": ("large", 100.0)}
    assert plan.held == {"large": "reserved", "x": "no_room"}


@pytest.mark.parametrize(
    ("field", "pool"),
    [
        ("guarantee", LendingPool("small", 5)),
        ("lending", LendingPool("small", 4, lending=-1)),
        ("borrowing", LendingPool("small", 4, borrowing=-1)),
    ],
)
def test_limits_that_contradict_the_machines_are_refused_by_their_field(
    field: str, pool: LendingPool
) -> None:
    with pytest.raises(PlanningError) as refused:
        plan_lending([ROOM[1]], [pool], [], [], 0)
    assert refused.value.field == field


def test_a_machine_that_stands_twice_and_a_card_held_twice_are_refused() -> None:
    with pytest.raises(PlanningError, match="stands twice"):
        plan_lending([ROOM[1], ROOM[1]], [LendingPool("small", 4)], [], [], 0)
    both = [HeldCards(name, "small", "b", (0,)) for name in "xy"]
    with pytest.raises(PlanningError, match="held twice"):
        plan_lending([replace(ROOM[1], free=())], [LendingPool("small", 4)], both, [], 0)
