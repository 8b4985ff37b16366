"""The planner: greedy first, the integer program next, and the better of both."""

from dataclasses import dataclass, replace
from math import inf

from graphs.planning import solver
from graphs.planning.assignment import Assignment, PlaceKey, TaskChoice, places_for
from graphs.planning.greedy import grow
from graphs.planning.milp import MIB, PlaceGroup, PlanProgram, ProgramBuilder, groups_by_kind, groups_by_place
from graphs.planning.model import (
    CARD_SHARE,
    CORE_SHARE,
    CardSlot,
    PlannedGraph,
    PlannedTask,
    PlanObjective,
    PlanRequest,
    ResourceShortage,
)

HALF = 0.5
CLOSE = 0.995
"""Share of the program's objective at which its plan on real cards needs no second program."""
PASSES = 3
MOST_COLUMNS = 200
"""Replicas by choice and place up to which every card is a place of its own for all choices."""
UNFILLED = 1e-9
"""Rate at which no batch fills."""


class NoPlan(Exception):
    """No plan is within the limits; shortages say which resource is short and by how much."""

    def __init__(self, shortages: tuple[ResourceShortage, ...]) -> None:
        super().__init__("; ".join(f"{one.resource}: {one.missing:.4g} missing" for one in shortages))
        self.shortages = shortages


@dataclass(frozen=True, slots=True)
class PlanCandidate:
    """A valid assignment and who found it."""

    assignment: Assignment
    method: str


def make_plan(request: PlanRequest, *, nodes: int = solver.MOST_NODES) -> PlannedGraph:
    """Return the best plan that was found within `nodes` of each search. Raises NoPlan."""
    found: list[PlanCandidate] = []
    if (grown := grow(request)) is not None:
        found.append(PlanCandidate(grown, "greedy"))
    bound = _solve(request, found, nodes)
    if not found:
        raise NoPlan(shortages(request))
    best = max(found, key=lambda candidate: candidate.assignment.score())
    return _described(best, bound)


def _solve(request: PlanRequest, found: list[PlanCandidate], nodes: int) -> float:
    """Add what programs find; return the bound that they prove."""
    bound = inf
    for _ in range(PASSES):
        # Batches fill faster at a higher rate, so that a lower one never promises too little latency.
        rates = [candidate.assignment.rate for candidate in found]
        throughput = request.objective is PlanObjective.THROUGHPUT
        reference = max(rates, default=UNFILLED) if throughput else request.rate
        bound = _solve_at(request, found, nodes, reference)
        rate = max((candidate.assignment.rate for candidate in found), default=0.0)
        if not throughput or request.latency_limit == inf or rate <= reference / CLOSE:
            break
    return bound


def _solve_at(request: PlanRequest, found: list[PlanCandidate], nodes: int, reference: float) -> float:
    """First with all cards of a kind as one; where its plan loses on real cards, with each by itself."""
    groups = groups_by_kind(request)
    plan = ProgramBuilder(request, groups, reference_rate=reference).build()
    whole = solver.solve(plan.lp, nodes=nodes)
    if not whole.values:
        return whole.bound
    if _is_placed(request, found, groups, plan, whole, whole.objective):
        return whole.bound
    groups = groups_by_place(request)
    only = {choice for choice, column in plan.chosen.items() if whole.values[column] > HALF}
    plan = ProgramBuilder(request, groups, reference_rate=reference, only=only).build()
    part = solver.solve(plan.lp, nodes=nodes // 10)
    if _is_placed(request, found, groups, plan, part, whole.objective):
        return whole.bound
    plan = ProgramBuilder(request, groups, reference_rate=reference).build()
    if len(plan.replicas) > MOST_COLUMNS:
        return whole.bound
    exact = solver.solve(plan.lp, nodes=nodes)
    _is_placed(request, found, groups, plan, exact, exact.objective)
    return min(whole.bound, exact.bound)


def _is_placed(
    request: PlanRequest,
    found: list[PlanCandidate],
    groups: list[PlaceGroup],
    plan: PlanProgram,
    solution: solver.ProgramSolution,
    goal: float,
) -> bool:
    """Add the solution's plan on real machines; whether the best plan so far reaches the goal."""
    assignment = place_replicas(request, groups, plan, solution.values) if solution.values else None
    if assignment is not None and (balanced := balance(assignment)).is_valid():
        found.append(PlanCandidate(balanced, "milp"))
    mine = max((candidate.assignment.score()[0] for candidate in found), default=-inf)
    return mine >= goal - (1 - CLOSE) * abs(goal)


def balance(assignment: Assignment) -> Assignment:
    """Share each task's items among its places so that the rate is highest: those on full cards get fewer."""
    request, lp = assignment.request, solver.LinearProgram()
    rate = lp.add(weight=1.0)
    time: dict[PlaceKey, dict[int, float]] = {}
    moved: dict[PlaceKey, dict[int, float]] = {}
    flows: dict[tuple[str, PlaceKey], int] = {}
    for task, places in assignment.counts.items():
        choice = assignment.choices[task]
        demand = {rate: -1.0}
        for place, count in places.items():
            flow = flows[task, place] = lp.add(high=CORE_SHARE * count / choice.work)
            demand[flow] = 1.0
            host = (place[0], "")
            time.setdefault(host, {})[flow] = choice.work * choice.option.cores
            moved.setdefault(host, {})[flow] = choice.task.visits * choice.task.item_bytes / MIB
            if place[1]:
                time.setdefault(place, {})[flow] = choice.work * choice.option.card_time
        lp.limit(demand, low=0.0, high=0.0)
    for machine in request.machines:
        host = (machine.name, "")
        lp.limit(time.get(host, {}), high=CORE_SHARE * machine.cores)
        if machine.bandwidth < inf:
            lp.limit(moved.get(host, {}), high=CORE_SHARE * machine.bandwidth / MIB)
        for card in machine.cards:
            lp.limit(time.get((machine.name, card.name), {}), high=CARD_SHARE)
    solution = solver.solve(lp, is_relaxed=True)
    if not solution.values or solution.values[rate] <= 0:
        return assignment
    total = solution.values[rate]
    shares = {
        task: {place: max(0.0, solution.values[flows[task, place]] / total) for place in places}
        for task, places in assignment.counts.items()
    }
    balanced = replace(assignment, shares=shares)
    return balanced if balanced.most > assignment.most else assignment


def place_replicas(
    request: PlanRequest, groups: list[PlaceGroup], plan: PlanProgram, values: tuple[float, ...]
) -> Assignment | None:
    """Put the replicas of a solution on machines and cards, the largest first, each where memory suffices and
    least time is taken; None where one finds no room."""
    choices = {choice.task.name: choice for choice, column in plan.chosen.items() if values[column] > HALF}
    wanted: list[tuple[TaskChoice, PlaceGroup]] = []
    for choice in choices.values():
        for group in groups:
            if (column := plan.replicas.get((choice, group.name))) is not None:
                wanted += [(choice, group)] * round(values[column])
    totals = {task: sum(choice.task.name == task for choice, _ in wanted) for task in choices}
    counts: dict[str, dict[PlaceKey, int]] = {task: {} for task in choices}
    memory: dict[PlaceKey, float] = {}
    time: dict[PlaceKey, float] = {}

    def size(pair: tuple[TaskChoice, PlaceGroup]) -> tuple[float, float, float, str]:
        batch, task = pair[0].batch, pair[0].task.name
        return (-batch.card_memory, -batch.memory, -pair[0].work / totals[task], task)

    for choice, group in sorted(wanted, key=size):
        batch, free = choice.batch, []
        for at, place in enumerate(places_for(request, choice.option)):
            host = (place.machine.name, "")
            if place.key not in group.keys or memory.get(host, 0) + batch.memory > place.machine.memory:
                continue
            if place.card and memory.get(place.key, 0) + batch.card_memory > place.card.memory:
                continue
            busy = time.get(place.key, 0.0) / (1.0 if place.card else max(place.machine.cores, 1e-9))
            free.append((busy, at, place.key))
        if not free:
            return None
        key = min(free)[2]
        task, host = choice.task.name, (key[0], "")
        counts[task][key] = counts[task].get(key, 0) + 1
        share = choice.work / totals[task]
        memory[host] = memory.get(host, 0) + batch.memory
        time[host] = time.get(host, 0) + share * choice.option.cores
        if key[1]:
            memory[key] = memory.get(key, 0) + batch.card_memory
            time[key] = time.get(key, 0) + share * choice.option.card_time
    return Assignment(request, choices, counts)


def shortages(request: PlanRequest) -> tuple[ResourceShortage, ...]:
    """The least by which limits must rise for a plan."""
    missing = {option.card for task in request.tasks for option in task.options if option.card}
    missing -= {card.kind for machine in request.machines for card in machine.cards}
    rate = request.rate or UNFILLED
    for groups in (groups_by_kind(request), groups_by_place(request)):
        host = groups[0].name
        none = [PlaceGroup(kind, frozenset(), 0, kind=kind, host=host) for kind in sorted(missing)]
        builder = ProgramBuilder(request, groups + none, reference_rate=rate, is_elastic=True)
        plan = builder.build()
        solution = solver.solve(plan.lp)
        found = [
            ResourceShortage(name, limit + solution.values[column] * scale, limit)
            for name, (column, limit, scale) in plan.slacks.items()
            if solution.values and solution.values[column] > 1e-6
        ]
        if found:
            return tuple(found)
    return ()


def with_more(request: PlanRequest, *, cores: float = 0.0, card: CardSlot | None = None) -> PlanRequest:
    """The request with more cores or one more card in its first machine that has cards of that kind."""
    machines = list(request.machines)
    at = next((i for i, m in enumerate(machines) if card and any(c.kind == card.kind for c in m.cards)), 0)
    first = machines[at]
    cards = (*first.cards, card) if card else first.cards
    machines[at] = replace(first, cores=first.cores + cores, cards=cards)
    return replace(request, machines=tuple(machines))


def _described(best: PlanCandidate, bound: float) -> PlannedGraph:
    assignment = best.assignment
    request, rate = assignment.request, assignment.rate
    tasks = []
    for name, choice in sorted(assignment.choices.items()):
        # Twice the mean time to fill, so that batches are full at the planned rate.
        wait = min(choice.task.max_wait, 2 * choice.fill(rate)) if choice.batch.size > 1 else 0.0
        tasks.append(
            PlannedTask(
                task=name,
                option=choice.option.name,
                batch=choice.batch.size,
                wait=wait,
                places=assignment.groups(name),
                capacity=assignment.capacity(name),
                latency=assignment.task_latency(name),
                busy=rate * choice.work / assignment.replicas(name),
            )
        )
    mine = assignment.score()[0]
    # Minimised objectives are negative scores.
    gap = max(0.0, (bound - mine) / abs(mine)) if bound < inf and mine else None
    return PlannedGraph(
        tasks=tuple(tasks),
        objective=request.objective,
        rate=rate,
        most=assignment.most,
        latency=assignment.latency,
        cost=assignment.cost,
        method=best.method,
        bound=abs(bound) if bound < inf else None,
        gap=gap,
        loads=assignment.loads(),
    )
