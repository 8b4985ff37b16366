"""What the planners of capacity promise, over worlds that nobody chose by hand."""

from dataclasses import replace
from itertools import pairwise
from math import ceil, inf, nan

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.planning.backlog import QueueBacklog, workers_by_deadline, workers_for
from capacity.planning.cards import GEOMETRY, MigPlacement, SliceNeed, layout
from capacity.planning.effect import BLOCKED_SECONDS, EffectMemory, learn_effect
from capacity.planning.errors import PlanningError
from capacity.planning.fragments import CardNode, PlacedJob, free_nodes, startable
from capacity.planning.law import ObservedLoad, ScalingLaw, ScalingMemory, law_for, offered_work, recommend
from capacity.planning.moves import MoveGuards, PoolMachine, plan_moves
from capacity.planning.reclaiming import RunningWorkload, reclaim
from capacity.planning.sharing import Demand, grants

NAMES = ("chat", "code", "search")
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@st.composite
def demands(draw: st.DrawFn) -> list[Demand]:
    made = []
    for name in NAMES:
        guarantee = draw(st.integers(0, 5))
        limit = draw(st.integers(guarantee, 40))
        base = draw(st.floats(0, 50))
        wanted = draw(st.integers(ceil(base), 80))
        made.append(
            Demand(name, guarantee, limit, draw(st.floats(0.1, 10)), base, wanted, draw(st.integers(0, 20)))
        )
    return made


@PATIENT
@given(machines=st.integers(15, 60), wanted=demands())
def test_grants_keep_guarantees_and_limits_and_never_give_a_machine_twice(
    machines: int, wanted: list[Demand]
) -> None:
    given_ = grants(machines, wanted)

    assert sum(given_.values()) <= machines
    for demand in wanted:
        assert demand.guarantee <= given_[demand.service] <= demand.limit
    assert grants(machines, list(reversed(wanted))) == given_


@PATIENT
@given(machines=st.integers(15, 60), wanted=demands())
def test_no_service_has_headroom_while_another_lacks_machines_for_its_load(
    machines: int, wanted: list[Demand]
) -> None:
    given_ = grants(machines, wanted)

    short = [
        d for d in wanted if given_[d.service] < min(ceil(d.base), d.limit) and given_[d.service] != d.have
    ]
    rich = [
        d
        for d in wanted
        if given_[d.service] > max(ceil(d.base), d.guarantee) and given_[d.service] != d.have
    ]
    assert not (short and rich)


def test_guarantees_over_the_pool_are_refused_with_the_field() -> None:
    with pytest.raises(PlanningError) as refused:
        grants(3, [Demand("chat", 2, 4, 1, 1, 1, 1), Demand("code", 2, 4, 1, 1, 1, 1)])
    assert refused.value.field == "guarantee"


@st.composite
def pools(draw: st.DrawFn) -> list[PoolMachine]:
    return [
        PoolMachine(
            f"m{index}",
            draw(st.sampled_from([*NAMES, None])),
            since=draw(st.floats(0, 1_000)),
            moving=draw(st.booleans()),
            in_flight=draw(st.integers(0, 9)),
            cached=draw(st.frozensets(st.sampled_from(NAMES))),
            kept_by=draw(st.sampled_from(["", "cordoned"])),
        )
        for index in range(draw(st.integers(1, 20)))
    ]


@settings(PATIENT, max_examples=300)
@given(
    machines=pools(),
    wanted=st.fixed_dictionaries({name: st.integers(0, 10) for name in NAMES}),
    budget=st.integers(0, 6),
)
def test_a_plan_moves_each_machine_once_within_its_guards(
    machines: list[PoolMachine], wanted: dict[str, int], budget: int
) -> None:
    guards = MoveGuards(budget=budget, dwell_seconds=100, parallel_starts=2)
    plan = plan_moves(machines, wanted, 1_000.0, guards)
    by_name = {machine.name: machine for machine in machines}

    assert len({move.machine for move in plan.moves}) == len(plan.moves) <= budget
    for move in plan.moves:
        machine = by_name[move.machine]
        assert move.source == machine.holder != move.target
        assert not machine.moving
        assert not machine.kept_by
        assert machine.holder is None or 1_000 - machine.since >= 100
    for name in NAMES:
        starting = sum(m.moving and m.holder == name for m in machines)
        gained = sum(move.target == name for move in plan.moves)
        have = sum(machine.holder == name for machine in machines)
        lost = sum(move.source == name for move in plan.moves)
        assert gained == 0 or starting + gained <= 2
        assert have - lost >= min(have, wanted[name])
        assert lost <= ceil(0.6 * have), "one plan leaves most of a service as it is"
        assert have + gained >= wanted[name] or name in plan.held
    assert plan_moves(list(reversed(machines)), wanted, 1_000.0, guards) == plan


def _looks(rates: dict[int, float], *, busy: bool = True) -> EffectMemory:
    """Ten minutes of looks at a full service: workers, and what so many answer a second."""
    memory = EffectMemory()
    for step in range(60):
        have = 4 if step < 30 else 8
        memory = learn_effect(memory, 10.0 * step, have=have, ready=have, is_full=busy, rate=rates[have])
    return memory


def test_a_scale_up_that_did_not_help_is_not_repeated_for_half_an_hour() -> None:
    vain = _looks({4: 100.0, 8: 101.0})
    assert vain.useless_since is not None
    assert vain.forbids_more(vain.useless_since + BLOCKED_SECONDS - 1)
    assert not vain.forbids_more(vain.useless_since + BLOCKED_SECONDS)
    assert not _looks({4: 100.0, 8: 150.0}).forbids_more(600.0), "it helped"
    assert not _looks({4: 100.0, 8: 101.0}, busy=False).forbids_more(600.0), "nothing more was asked for"
    calm = learn_effect(vain, 610.0, have=8, ready=8, is_full=False, rate=50.0)
    assert not calm.forbids_more(610.0), "the load has gone"


def test_a_machine_that_has_the_weights_is_taken_first() -> None:
    machines = [PoolMachine("a", None), PoolMachine("b", None, cached=frozenset({"chat"}))]
    assert plan_moves(machines, {"chat": 1}, 0.0).moves[0].machine == "b"


@PATIENT
@given(
    needs=st.lists(st.floats(0, 50), min_size=2, max_size=200),
    target=st.floats(0.3, 1.0),
)
def test_machines_rise_at_once_and_never_fall_below_the_highest_need_of_the_hold(
    needs: list[float], target: float
) -> None:
    law, memory, have = ScalingLaw(target), ScalingMemory(), 1
    history: list[tuple[float, float]] = []
    for step, load in enumerate(needs):
        at = 10.0 * step
        told = recommend(law, memory, ObservedLoad(at, load, load), have)
        history.append((at, told.need))
        if told.need > law.increase_from * have:
            assert told.machines == ceil(told.need)
        if told.machines < have:
            assert at >= law.hold_seconds
            assert told.machines >= max(need for then, need in history if then > at - law.hold_seconds)
        memory, have = told.memory, told.machines


def test_a_clock_that_steps_back_takes_no_machine_away() -> None:
    law, memory = ScalingLaw(0.75), ScalingMemory()
    for step in range(60):
        memory = recommend(law, memory, ObservedLoad(10_000 + 10.0 * step, 1, 1), 10).memory
    assert recommend(law, memory, ObservedLoad(50.0, 1, 1), 10).machines == 10


def test_headroom_grows_with_the_switch_time() -> None:
    targets = [law_for(seconds).target for seconds in (0, 10, 30, 60, 120, 180, 900)]
    assert targets == sorted(targets, reverse=True)
    assert all(before != after for before, after in pairwise(targets[1:-1]))


def test_a_busy_rate_that_is_clipped_gives_way_to_what_came_and_what_waits() -> None:
    assert offered_work(0.5, machines=4, slots=8, answered=40, growth=40, unfinished=90) == 2
    assert offered_work(1.0, machines=4, slots=8, answered=40, growth=20, unfinished=90) == 6
    assert offered_work(1.0, machines=4, slots=8, answered=40, growth=-20, unfinished=10) == 4
    assert offered_work(1.0, machines=4, slots=8, answered=0, growth=0, unfinished=80) == 10


@pytest.mark.parametrize("figure", [-1.0, nan, inf])
def test_figures_that_cannot_be_are_refused_and_never_read_as_no_load(figure: float) -> None:
    with pytest.raises(PlanningError):
        ObservedLoad(0, figure, 1)
    with pytest.raises(PlanningError):
        QueueBacklog(figure, 0, 1, 0, 60)
    with pytest.raises(PlanningError):
        ScalingLaw(figure)


def test_an_empty_queue_needs_no_worker_and_a_waiting_item_needs_one() -> None:
    assert workers_for(QueueBacklog(0, 0, 5, 0, 60)) == 0
    assert workers_for(QueueBacklog(0, 0.1, 0, 0, 60)) == 1


@PATIENT
@given(work=st.floats(1, 1e5), left=st.floats(10, 1e4), start=st.floats(1, 900), running=st.integers(0, 50))
def test_a_deadline_takes_the_fewest_workers_or_says_how_late_it_will_be(
    work: float, left: float, start: float, running: int
) -> None:
    def end(workers: int) -> float:
        already = min(running, workers)
        done = already * start
        return work / already if already and work <= done else start + (work - done) / workers

    need = workers_by_deadline(work, left, start, running, most=100)
    if need.late_seconds:
        assert need.workers == 100
        assert end(100) == pytest.approx(left + need.late_seconds)
    else:
        assert end(need.workers) <= left
        assert need.workers == 1 or end(need.workers - 1) > left


@st.composite
def nodes(draw: st.DrawFn) -> list[CardNode]:
    made = []
    for index in range(draw(st.integers(2, 12))):
        jobs: list[PlacedJob] = []
        for size in draw(st.lists(st.sampled_from([1, 2, 4]), max_size=6)):
            if sum(job.cards for job in jobs) + size <= 8:
                cost, movable = draw(st.floats(0, 100)), draw(st.booleans())
                jobs.append(PlacedJob(f"{index}-{len(jobs)}", size, cost, movable))
        made.append(CardNode(f"n{index}", 8, tuple(jobs)))
    return made


@settings(PATIENT, max_examples=300)
@given(before=nodes(), wanted=st.integers(1, 4))
def test_moves_free_whole_nodes_and_fill_none_beyond_its_cards(before: list[CardNode], wanted: int) -> None:
    plan = free_nodes(before, wanted)
    after = {node.name: node for node in before}
    for move in plan.moves:
        job = next(job for job in after[move.source].jobs if job.name == move.job)
        assert job.movable
        source, target = after[move.source], after[move.target]
        after[move.source] = replace(source, jobs=tuple(held for held in source.jobs if held is not job))
        after[move.target] = replace(target, jobs=(*target.jobs, job))

    assert all(not after[name].jobs for name in plan.freed)
    assert len(plan.freed) + plan.missing == wanted
    assert len({move.job for move in plan.moves}) == len(plan.moves)
    assert startable(after.values(), 8) == startable(before, 8) + len(plan.freed)


def test_jobs_larger_than_a_node_start_on_whole_free_nodes_alone() -> None:
    full, empty = CardNode("a", 8, (PlacedJob("x", 1, 1),)), [CardNode(name, 8) for name in "bcd"]
    assert startable([full, *empty], 16) == 1
    assert startable([full, *empty], 24) == 1
    assert startable([full, *empty], 7) == 4


def test_eight_victims_on_four_nodes_are_not_taken_for_a_job_of_eight_cards() -> None:
    running = [
        RunningWorkload(f"{node}-{i}", node, 2, False, True, 0, 5.0, False, 0)
        for node in "abcd"
        for i in range(2)
    ]
    running += [RunningWorkload("whole", "e", 8, False, True, 1, 5.0, False, 0)]
    found = reclaim(running, dict.fromkeys("abcde", 0), 8, priority=5, now=100, owner=False)
    assert found is not None
    assert (found.node, found.victims) == ("e", ("whole",))


def test_idle_then_borrowers_then_low_priority_then_least_work_lost_give_way() -> None:
    base = RunningWorkload("own", "a", 1, False, False, 0, 10.0, False, 0)
    running = [
        base,
        replace(base, name="borrower", borrowed=True, priority=3),
        replace(base, name="idle", idle=True, priority=4, checkpoint=None),
        replace(base, name="fresh", checkpoint=1.0),
        replace(base, name="lossless", checkpoint=None),
    ]
    order = []
    for cards in range(1, 5):
        found = reclaim(running, {"a": 0}, cards, priority=5, now=100, owner=True)
        assert found is not None
        order.append(list(found.victims))
    assert order == [
        ["idle"],
        ["idle", "borrower"],
        ["idle", "borrower", "fresh"],
        ["idle", "borrower", "fresh", "own"],
    ]
    assert reclaim(running, {"a": 0}, 5, priority=5, now=100, owner=True) is None


@settings(PATIENT, max_examples=300)
@given(
    model=st.sampled_from(sorted(GEOMETRY)),
    shares=st.lists(st.sampled_from([1, 2, 3, 4, 7]), min_size=1, max_size=7),
)
def test_instances_of_a_layout_stand_where_the_geometry_allows_and_never_overlap(
    model: str, shares: list[int]
) -> None:
    needs = [SliceNeed(f"m{index}", 1_000, share / 7) for index, share in enumerate(shares)]
    profiles = {profile[0]: profile for profile in GEOMETRY[model]}
    try:
        placed = layout(model, needs)
    except PlanningError:
        assert sum(shares) > 7 or sum(4 if share > 2 else share for share in shares) > 6
        return
    taken = [slice_ for p in placed for slice_ in range(p.begin, p.begin + profiles[p.profile][3])]
    assert len(taken) == len(set(taken))
    assert all(p.begin in profiles[p.profile][4] for p in placed)
    assert sum(profiles[p.profile][1] for p in placed) <= 7
    assert {p.name for p in placed} == {need.name for need in needs}


def test_what_stands_on_a_card_stays_where_it_is() -> None:
    kept = [MigPlacement("2g.20gb", 0, "old")]
    with pytest.raises(PlanningError):
        layout("H100-80GB", [SliceNeed("new", 1_000, 4 / 7)], kept)
    assert layout("H100-80GB", [SliceNeed("new", 1_000, 3 / 7)], kept)[-1] == MigPlacement(
        "3g.40gb", 4, "new"
    )


def test_an_unknown_card_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(PlanningError, match="H100-80GB"):
        layout("B300", [SliceNeed("new", 1, 0.1)])


def test_headroom_follows_the_noise_of_the_load_and_not_its_tide() -> None:
    loads = {
        "calm": [10.0] * 120,
        "tide": [10.0 + step / 60 for step in range(120)],
        "bursts": [7.0, 13.0] * 60,
    }
    law, needs = ScalingLaw(0.87), {}
    for name, load in loads.items():
        memory = ScalingMemory()
        for step, work in enumerate(load):
            told = recommend(law, memory, ObservedLoad(10.0 * step, work, work), 20)
            memory = told.memory
        needs[name] = told.need / told.base
    assert needs["calm"] == pytest.approx(needs["tide"]) == pytest.approx(1 / 0.87)
    assert needs["bursts"] > 1.5
