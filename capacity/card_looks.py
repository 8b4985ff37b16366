"""A pool of machines at one moment: which of its workloads can start, and whom that would preempt."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from capacity.disruption import blocked
from capacity.fragmentation import is_due, is_still_possible, may_plan, needed_by_wait, plan_defragmentation
from capacity.ledger import CardLedger, PoolMachineCards, ledger_of
from capacity.models import Pool, Workload
from capacity.planning.errors import PlanningError
from capacity.planning.lending import CardGrant, Preemption
from capacity.states import CapacityPlanKind, CapacityPlanState


@dataclass(frozen=True)
class CardLook:
    """Result of a look at the cards of a pool.

    `starts`: workloads that get free cards. `changes`: changes of the plan that the rest needs, if any."""

    starts: tuple[tuple[Workload, CardGrant], ...] = ()
    waiting: tuple[Workload, ...] = ()
    changes: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    kind: CapacityPlanKind = CapacityPlanKind.WORKLOADS
    machines: tuple[PoolMachineCards, ...] = ()
    gain: Mapping[str, Any] = field(default_factory=dict)
    is_open_plan_possible: bool = True
    """Whether the moves that are proposed could still be made."""
    looks: ClassVar[tuple[Any, ...]] = ()


def look_at_cards(pool: Pool, now: datetime) -> CardLook:
    """Plan all pools of the cluster together, and take the part of this one."""
    ledger = ledger_of(pool.cluster)
    try:
        plan = ledger.plan(now)
    except PlanningError as error:
        return CardLook(problem=str(error))
    rows = ledger.workloads
    starts = tuple(
        (rows[int(grant.workload)], grant)
        for grant in plan.starts
        if rows[int(grant.workload)].pool_id == pool.pk
    )
    waiting = []
    for name, code in plan.held.items():
        if rows[int(name)].pool_id == pool.pk:
            rows[int(name)].problem = code
            waiting.append(rows[int(name)])
    for one in plan.preemptions:
        if (row := rows[int(one.grant.workload)]).pool_id == pool.pk:
            row.problem = "waits_for_plan"
            waiting.append(row)
    preemption = next(
        (one for one in plan.preemptions if rows[int(one.grant.workload)].pool_id == pool.pk), None
    )
    seen = CardLook(starts, tuple(waiting), machines=tuple(ledger.of(pool)))
    if preemption is not None:
        return replace(seen, changes=preemption_changes(ledger, preemption))
    proposed = pool.plans.filter(kind=CapacityPlanKind.FRAGMENTS, state=CapacityPlanState.PROPOSED).first()
    if proposed is not None:
        return replace(seen, is_open_plan_possible=is_still_possible(ledger, proposed.changes))
    return _defragmented(pool, ledger, seen, now)


def _defragmented(pool: Pool, ledger: CardLedger, seen: CardLook, now: datetime) -> CardLook:
    """Moves that the schedule asks for, or a workload that waits too long."""
    cards = needed_by_wait(pool, ledger, now)
    if is_due(pool, now):
        cards = max((machine.cards for machine in seen.machines), default=0)
    if not cards or not may_plan(pool, now):
        return seen
    try:
        plan = plan_defragmentation(pool, cards=cards, machines=1, blocked=blocked, ledger=ledger, now=now)
    except PlanningError:
        return seen
    return replace(seen, changes=plan.changes, gain=plan.gain, kind=CapacityPlanKind.FRAGMENTS)


def preemption_changes(ledger: CardLedger, preemption: Preemption) -> tuple[dict[str, Any], ...]:
    """Return the changes of a plan: who gives way, with what that loses, and who starts."""
    held = {one.name: one for one in ledger.held()}
    changes = []
    for name in preemption.victims:
        one = held[name]
        seconds = one.checkpoint
        lost = None if seconds is None else round(seconds * one.size)
        changes.append(
            {
                "workload": int(name),
                "name": ledger.workloads[int(name)].name,
                "before": _place(ledger, one.places, one.pool),
                "after": None,
                "why": "preempted" if lost is not None else "preempted_without_checkpoint",
                "lost": round(preemption.lost) if lost is None else lost,
            }
        )
    grant = preemption.grant
    asks = ledger.workloads[int(grant.workload)]
    changes.append(
        {
            "workload": asks.pk,
            "name": asks.name,
            "before": None,
            "after": _place(ledger, {one.machine: one.cards for one in grant.parts}, str(asks.pool_id)),
            "why": "its_turn",
            "lost": 0,
        }
    )
    return tuple(changes)


def _place(ledger: CardLedger, cards: Mapping[str, tuple[int, ...]], pool: str) -> dict[str, Any]:
    """Return a place as plans keep it: `rest` has the machines after the first, where there are some."""
    owners = {one.name: str(one.pool.pk) for one in ledger.machines}
    parts = [
        {"machine": name, "cards": list(held), "lender": owners[name] if owners[name] != pool else ""}
        for name, held in cards.items()
    ]
    return {**parts[0], "rest": parts[1:]} if parts[1:] else parts[0]
