"""The planner's promises: within all limits, never behind greedy, close to the best that there is."""

from dataclasses import replace
from itertools import product
from math import ceil, inf

import pytest

from graphs.planning.assignment import Assignment, choices_of, longest_path, places_for
from graphs.planning.explain import explain
from graphs.planning.greedy import grow
from graphs.planning.model import (
    BatchTime,
    CardSlot,
    GraphPlanningError,
    PlanMachine,
    PlannedGraph,
    PlanObjective,
    PlanRequest,
    TaskNeed,
    TaskOption,
)
from graphs.planning.planner import NoPlan, make_plan, with_more
from tests.graphs.random_requests import GIB, random_request

SOME = 1 + 1e-6
SHAPES = [(3, 1), (5, 2)]
COST = {"objective": PlanObjective.COST, "rate": 5.0}
LATENCY = {"objective": PlanObjective.LATENCY, "rate": 5.0}


def check_within_limits(request: PlanRequest, plan: PlannedGraph) -> None:
    """From the profiles alone, without what the planner computes with."""
    chosen = {}
    memory = dict.fromkeys(
        ((m.name, c) for m in request.machines for c in ("", *(x.name for x in m.cards))), 0.0
    )
    for task in request.tasks:
        planned = plan.of(task.name)
        option = next(one for one in task.options if one.name == planned.option)
        time = next(one for one in option.times if one.size == planned.batch)
        chosen[task.name] = time
        assert plan.rate * task.visits * time.seconds / time.size <= planned.replicas * SOME
        for place in planned.places:
            assert bool(place.card) == bool(option.card)
            memory[place.machine, ""] += place.count * time.memory
            if place.card:
                memory[place.machine, place.card] += place.count * time.card_memory
    for machine in request.machines:
        assert memory[machine.name, ""] <= machine.memory
        for card in machine.cards:
            assert memory[machine.name, card.name] <= card.memory
    assert all(load.used <= load.limit * SOME for load in plan.loads)
    if request.rate:
        assert plan.rate == pytest.approx(request.rate)
    least = {
        task.name: chosen[task.name].seconds * (ceil(task.visits / chosen[task.name].size) + 1)
        for task in request.tasks
    }
    assert longest_path(request, least) <= plan.latency * SOME <= request.latency_limit * SOME**2


@pytest.mark.parametrize(
    "asked", [{}, COST, LATENCY, {"latency_limit": 2.0}], ids=["rate", "cost", "time", "bound"]
)
def test_plans_are_within_all_limits_and_never_behind_greedy(asked: dict) -> None:
    planned, refusals = 0, []
    for (tasks, cards), seed in product(SHAPES, range(3)):
        request = random_request(tasks, cards, seed, **asked)
        grown = grow(request)
        try:
            plan = make_plan(request, nodes=30)
        except NoPlan as none:
            refusals.append((grown, none.shortages))
            continue
        planned += 1
        check_within_limits(request, plan)
        value = {"throughput": plan.rate, "cost": -plan.cost, "latency": -plan.latency}[plan.objective]
        assert grown is None or value >= grown.score()[0] - 1e-9
    assert planned >= 4
    assert all(grown is None and short for grown, short in refusals)


def test_small_plans_are_within_three_percent_of_exhaustive_ones() -> None:
    for seed in range(4):
        request = random_request(3, 1, seed)
        rate = make_plan(request).rate
        options = []
        for task in request.tasks:
            choices = list(choices_of(request, task))
            options.append(
                [
                    (choice, {places_for(request, choice.option)[0].key: count})
                    for choice in choices
                    for count in range(1, 6)
                ]
            )
        best = 0.0
        for combined in product(*options):
            choices = {choice.task.name: choice for choice, _ in combined}
            counts = {choice.task.name: count for choice, count in combined}
            tried = Assignment(request, choices, counts)
            if tried.most > best and tried.fits():
                best = tried.most
        assert rate >= 0.97 * best, seed


def test_the_same_request_has_the_same_plan() -> None:
    request = random_request(5, 2, 0)
    assert make_plan(request, nodes=30) == make_plan(request, nodes=30)


def cpu(seconds: float, memory: int = GIB) -> TaskOption:
    return TaskOption("cpu", (BatchTime(1, seconds, memory),))


def on_card(seconds: float, memory: int) -> TaskOption:
    return TaskOption("card", (BatchTime(1, seconds, GIB, memory),), 0.1, "A")


BOX = PlanMachine("box", 4, 32 * GIB, (CardSlot("0", "A", 16 * GIB),))


def test_a_shortage_is_as_large_as_what_must_be_added() -> None:
    needs = tuple(TaskNeed(f"t{n}", (on_card(0.1, 12 * GIB),)) for n in range(3))
    request = PlanRequest(needs, (("t0", "t1"), ("t1", "t2")), (BOX,))
    with pytest.raises(NoPlan) as refused:
        make_plan(request)
    (short,) = refused.value.shortages
    assert short.resource.startswith("card memory")
    assert short.missing == pytest.approx(20 * GIB)
    larger = replace(BOX, cards=(CardSlot("0", "A", 36 * GIB),))
    assert make_plan(replace(request, machines=(larger,))).rate > 0

    wanted = PlanRequest((TaskNeed("a", (cpu(1.0),)),), (), (BOX,), PlanObjective.COST, rate=10)
    with pytest.raises(NoPlan) as refused:
        make_plan(wanted)
    (short,) = refused.value.shortages
    assert (short.resource, short.needed) == ("cores of machines", pytest.approx(10))

    late = PlanRequest((TaskNeed("a", (cpu(1.0),)),), (), (BOX,), latency_limit=0.5)
    with pytest.raises(NoPlan) as refused:
        make_plan(late)
    assert refused.value.shortages[0].resource == "latency"
    bare = replace(request, machines=(replace(BOX, cards=()),))
    with pytest.raises(NoPlan) as refused:
        make_plan(bare)
    assert {one.resource for one in refused.value.shortages} == {"card memory of A"}


def test_an_explanation_names_bottleneck_bubbles_and_what_more_brings() -> None:
    needs = (TaskNeed("slow", (cpu(0.4), on_card(0.05, 64 * GIB))), TaskNeed("quick", (cpu(0.1),)))
    request = PlanRequest(needs, (("slow", "quick"),), (BOX,))
    plan = make_plan(request)
    assert plan.rate == pytest.approx(0.95 * 4 / 0.5, rel=0.01)
    told = explain(request, plan)
    assert ("cores", "box") in {(one.kind, one.name) for one in told.bottlenecks}
    core = next(one for one in told.what_if if one.more == "core")
    assert core.value == pytest.approx(make_plan(with_more(request, cores=1)).rate)
    assert core.gain == pytest.approx(0.25, abs=0.02)
    assert next(one for one in told.what_if if one.more == "card A").gain == 0
    assert [(one.task, one.option, one.reason) for one in told.refusals] == [("slow", "card", "too_large")]
    for task in plan.tasks:
        assert told.bubbles[task.task] == pytest.approx(1 - task.busy)


def test_an_option_that_is_worse_says_by_how_much() -> None:
    needs = (
        TaskNeed(
            "a",
            (cpu(0.1), TaskOption("wide", (BatchTime(1, 0.1, GIB),), cores=2)),
        ),
    )
    request = PlanRequest(needs, (), (BOX,))
    (refusal,) = explain(request, make_plan(request)).refusals
    assert (refusal.option, refusal.reason) == ("wide", "worse")
    assert refusal.gain == pytest.approx(-0.5, abs=0.02)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("tasks", {"tasks": ()}),
        ("tasks", {"tasks": (TaskNeed("a", (cpu(1),)), TaskNeed("a", (cpu(1),)))}),
        ("edges", {"edges": (("a", "b"), ("b", "a"))}),
        ("edges", {"edges": (("a", "nobody"),)}),
        ("machines", {"machines": ()}),
        ("rate", {"objective": PlanObjective.COST}),
        ("options", {"tasks": (TaskNeed("a", ()),), "edges": ()}),
        ("times", {"tasks": (TaskNeed("a", (cpu(inf),)),), "edges": ()}),
        ("visits", {"tasks": (TaskNeed("a", (cpu(1),), visits=0),), "edges": ()}),
    ],
)
def test_requests_without_sense_are_refused_by_field(field: str, changes: dict) -> None:
    needs = (TaskNeed("a", (cpu(1),)), TaskNeed("b", (cpu(1),)))
    whole = {"tasks": needs, "edges": (("a", "b"),), "machines": (BOX,)}
    with pytest.raises(GraphPlanningError) as refused:
        PlanRequest(**{**whole, **changes})
    assert refused.value.field == field
