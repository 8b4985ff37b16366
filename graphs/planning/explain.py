"""Explanations of a plan: what holds it back, who waits, what more would bring, why not another option."""

from dataclasses import dataclass, replace
from math import inf

from graphs.planning import solver
from graphs.planning.assignment import choices_of, places_for
from graphs.planning.milp import ProgramBuilder, groups_by_kind
from graphs.planning.model import CARD_SHARE, CORE_SHARE, PlannedGraph, PlanObjective, PlanRequest
from graphs.planning.planner import NoPlan, make_plan, with_more

NEAR = 0.98
"""Share of what is allowed from which a resource counts as used up."""
WHAT_IF_NODES = 60


@dataclass(frozen=True, slots=True)
class PlanBottleneck:
    """Limit of the rate: `replicas` of a task, or a resource of a place. `share`: part of its time in use."""

    kind: str
    name: str
    share: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Gain of one more core or card. `value`: the objective with it; None: no plan was found."""

    more: str
    value: float | None
    gain: float


@dataclass(frozen=True, slots=True)
class OptionRefusal:
    """Why a task does not run by another option. reason: `no_card`, `too_large`, `worse`, or `close`: not
    proven to be worse. value: no plan with the option is better than this; gain: by which share that is
    better than the plan (below 0: worse)."""

    task: str
    option: str
    reason: str
    value: float | None = None
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class PlanExplanation:
    """Reasons of a plan. `bubbles`: by task, the share of its replicas' time in which they wait."""

    bottlenecks: tuple[PlanBottleneck, ...]
    bubbles: dict[str, float]
    what_if: tuple[WhatIf, ...]
    refusals: tuple[OptionRefusal, ...]


def explain(request: PlanRequest, plan: PlannedGraph) -> PlanExplanation:
    return PlanExplanation(
        bottlenecks=_bottlenecks(plan),
        bubbles={task.task: max(0.0, 1 - task.busy) for task in plan.tasks},
        what_if=tuple(_what_if(request, plan)),
        refusals=tuple(_refusals(request, plan)),
    )


def objective_value(plan: PlannedGraph) -> float:
    return {"throughput": plan.rate, "cost": plan.cost, "latency": plan.latency}[plan.objective]


def _gain(objective: PlanObjective, before: float, after: float) -> float:
    change = after / before - 1 if before else 0.0
    return change if objective is PlanObjective.THROUGHPUT else -change


def _bottlenecks(plan: PlannedGraph) -> tuple[PlanBottleneck, ...]:
    found = [
        PlanBottleneck("replicas", task.task, task.busy)
        for task in plan.tasks
        if task.capacity <= plan.most / NEAR
    ]
    allowed = {"cores": CORE_SHARE, "bandwidth": CORE_SHARE, "card time": CARD_SHARE}
    for load in plan.loads:
        limit = allowed.get(load.resource, 1.0)
        if load.share >= NEAR * limit:
            found.append(PlanBottleneck(load.resource, load.place, load.share))
    return tuple(sorted(found, key=lambda one: (-one.share, one.kind, one.name)))


def _what_if(request: PlanRequest, plan: PlannedGraph) -> list[WhatIf]:
    cards = {card.kind: card for machine in request.machines for card in machine.cards}
    changes = {"core": with_more(request, cores=1.0)}
    for kind, card in sorted(cards.items()):
        changes[f"card {kind}"] = with_more(request, card=replace(card, name=f"{card.name}+"))
    before = objective_value(plan)
    found = []
    for more, changed in changes.items():
        try:
            after = objective_value(make_plan(changed, nodes=WHAT_IF_NODES))
        except NoPlan:
            found.append(WhatIf(more, None, 0.0))
            continue
        # The plan at hand stays possible, whatever a shorter search finds.
        gain = max(0.0, _gain(request.objective, before, after))
        found.append(WhatIf(more, after if gain else before, gain))
    return found


def _refusals(request: PlanRequest, plan: PlannedGraph) -> list[OptionRefusal]:
    """Judge an option by the relaxed program in which it is forced: no whole plan beats its optimum."""
    found = []
    before = objective_value(plan)
    kinds = groups_by_kind(request)
    for task in request.tasks:
        for option in task.options:
            if option.name == plan.of(task.name).option:
                continue
            places = places_for(request, option)
            if not places:
                found.append(OptionRefusal(task.name, option.name, "no_card"))
                continue
            fits = [
                time
                for time in option.times
                for place in places
                if time.memory <= place.machine.memory
                and (not place.card or time.card_memory <= place.card.memory)
            ]
            if not fits:
                found.append(OptionRefusal(task.name, option.name, "too_large"))
                continue
            only = {
                choice
                for other in request.tasks
                for choice in choices_of(request, other)
                if other is not task or choice.option is option
            }
            builder = ProgramBuilder(request, kinds, reference_rate=plan.rate, only=only)
            solution = solver.solve(builder.build().lp, is_relaxed=True)
            if solution.objective == -inf:
                found.append(OptionRefusal(task.name, option.name, "too_large"))
                continue
            value = abs(solution.objective)
            gain = _gain(request.objective, before, value)
            reason = "worse" if gain <= 0 else "close"
            found.append(OptionRefusal(task.name, option.name, reason, value, gain))
    return found
