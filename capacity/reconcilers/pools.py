"""Pools look and plan every ten seconds; plans take workers away first, and then give them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from capacity.card_looks import CardLook, look_at_cards
from capacity.decisions import cost_and_gain, digest_of, inputs_of, is_as_made
from capacity.events import CapacityPlanMoved
from capacity.fragmentation import record_fragments
from capacity.looks import PoolLook, stored
from capacity.model_files import record_files
from capacity.models import CapacityPlan, CapacityStop, Pool, PoolMember, Workload
from capacity.observing import look_at
from capacity.quotas import KeeperOf, QuotaLook, keep_quota, keeper_of
from capacity.reconcilers.card_moves import AcquireCards, ReleaseCards
from capacity.reconcilers.machine_moves import AcquireMachines, ReleaseMachines
from capacity.reconcilers.worker_moves import ACTOR, AcquireWorkers, ReleaseWorkers
from capacity.services.machines import record_machines, record_workers
from capacity.services.policies import record_loads
from capacity.services.workloads import grant_cards, hand_to_queue
from capacity.states import (
    MOVES,
    RUNNING,
    CapacityPlanKind,
    CapacityPlanState,
    Granularity,
    PoolKind,
    PoolMode,
    WorkloadAdmission,
    WorkloadState,
)
from clusters.backends.base import ClusterBackend
from clusters.backends.configured import backend_of
from clusters.models import Cluster
from common import audit, events
from common.live.touch import touch
from common.reconcile import Operation, Reconciler, Recurring, Step, StepOutcome, kernel, wait


class PoolReconciler(Recurring[Pool]):
    """Looks at a pool. Its quota, where others admit its workloads, is set as a whole each time."""

    model = Pool
    name = "look"
    every = timedelta(seconds=10)
    right = Right.CAPACITY_WRITE

    def __init__(self, keeper_of: KeeperOf = keeper_of) -> None:
        self._keeper_of = keeper_of

    def rows(self) -> QuerySet[Pool]:
        return Pool.objects.select_related("cluster", "team")

    def lane_of(self, row: Pool) -> str:
        is_elsewhere = row.admission == WorkloadAdmission.KUEUE or row.quota is not None
        return f"cluster:{row.cluster.name}" if is_elsewhere else ""

    def observe(self, row: Pool, operation: Operation) -> PoolLook | CardLook | QuotaLook | None:
        if row.admission == WorkloadAdmission.KUEUE or row.quota is not None:
            return keep_quota(row, self._keeper_of)
        if row.state == PoolMode.OFF or CapacityStop.now().is_on:
            return None
        if row.kind == PoolKind.SERVING:
            return look_at(row, operation.at)
        return look_at_cards(row, operation.at)

    def settle(self, row: Pool, seen: PoolLook | CardLook | QuotaLook | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(self.every)
        if isinstance(seen, QuotaLook):
            told = {"observed_at": now, "problem": seen.problem, "quota": seen.quota}
            return wait(self.every, save=told, write=lambda: _hand_to_queue(seen, now))
        if isinstance(seen, CardLook):
            columns = {"observed_at": now, "problem": seen.problem}
            return wait(self.every, save=columns, write=lambda: _hand_out(row, seen, now))
        saved = {"observed_at": now, "problem": seen.problem}
        return wait(self.every, save=saved, write=lambda: _remember(row, seen, now))


def _hand_to_queue(seen: QuotaLook, now: datetime) -> None:
    for workload in seen.starts:
        hand_to_queue(workload, now=now)
    touch("changes", "capacity")


def _hand_out(pool: Pool, seen: CardLook, now: datetime) -> None:
    """Start what has free cards; propose what needs those of others."""
    for workload, grant in seen.starts:
        grant_cards(workload, grant, now=now)
    for workload in seen.waiting:
        Workload.objects.filter(pk=workload.pk, state=WorkloadState.QUEUED).exclude(
            problem=workload.problem
        ).update(problem=workload.problem)
    record_fragments(pool, seen.machines, now)
    record_workers(seen.machines, now)
    plan = pool.plans.filter(state__in=[CapacityPlanState.PROPOSED, *RUNNING]).first()
    if plan is not None and plan.kind == CapacityPlanKind.FRAGMENTS and not seen.changes:
        kept = tuple(plan.changes) if seen.is_open_plan_possible else ()
        seen = replace(seen, changes=kept)
    if plan is None or plan.state == CapacityPlanState.PROPOSED:
        _propose(pool, plan, seen, now)
    if seen.kind == CapacityPlanKind.FRAGMENTS and seen.changes:
        Pool.objects.filter(pk=pool.pk).update(defragmented_at=now)
    touch("changes", "capacity")


def _remember(pool: Pool, seen: PoolLook, now: datetime) -> None:
    for look in seen.looks:
        PoolMember.objects.filter(pool=pool, service=look.service).update(
            look=stored(look), memory=stored(seen.remembered[look.service])
        )
    _record(pool, seen, now)
    if pool.granularity == Granularity.MACHINE:
        record_machines(pool, now)
        record_files(pool, now)
    touch("changes", "capacity")
    plan = pool.plans.filter(state__in=[CapacityPlanState.PROPOSED, *RUNNING]).first()
    if plan is None or plan.state == CapacityPlanState.PROPOSED:
        _propose(pool, plan, seen, now)


def _record(pool: Pool, seen: PoolLook, now: datetime) -> None:
    """Write down the load of services that were seen at work, for replays."""
    rows = PoolMember.objects.filter(pool=pool).select_related("groups")
    members = {row.service: row for row in rows}
    found = {
        members[look.service].pk: (
            seen.remembered[look.service].offered[-1][1],
            look.have,
            _online(members[look.service]),
        )
        for look in seen.looks
        if look.service in members and look.busy is not None and seen.remembered[look.service].offered
    }
    if found:
        record_loads(found, now)


def _online(member: PoolMember) -> int | None:
    look = member.groups.look if hasattr(member, "groups") else None
    return int(look["online"]) if look else None


def _propose(pool: Pool, open_plan: CapacityPlan | None, seen: PoolLook | CardLook, now: datetime) -> None:
    """Replace a proposal that the load has left behind; in an automatic pool begin what is proposed."""
    plan = open_plan
    if plan is not None and (_what(plan.changes) != _what(seen.changes) or not is_as_made(plan)):
        columns = {"state_since": now, "ended_at": now}
        why = _("What it was made of has changed since.")
        kernel.interrupt(plan, to=CapacityPlanState.SUPERSEDED, where=None, reason=why, **columns)
        plan = None
    if plan is None and seen.changes:
        looks = [stored(look) for look in seen.looks]
        changes = list(seen.changes)
        inputs = inputs_of(pool)
        if isinstance(seen, CardLook):
            cost, gain = float(sum(change["lost"] for change in changes)), dict(seen.gain)
        else:
            cost, gain = cost_and_gain(seen.looks, changes, inputs)
        plan = CapacityPlan(
            pool=pool, kind=seen.kind, changes=changes, looks=looks, inputs=inputs, cost=cost, gain=gain
        )
        plan.digest = digest_of(plan)
        plan.save()
        events.publish(CapacityPlanMoved(plan.pk, pool.pk))
    if plan is not None and pool.state == PoolMode.AUTOMATIC:
        kernel.interrupt(plan, to=CapacityPlanState.RELEASING, state_since=now, decided_by=ACTOR.name)
        detail = {"digest": plan.digest}
        audit.record(ACTOR, "capacity_plan.apply", subject=plan, team_id=pool.team_id, detail=detail)
        events.publish(CapacityPlanMoved(plan.pk, pool.pk))


def _what(changes: Any) -> list[str]:
    return sorted(f"{change.get('service', change.get('workload'))} {change['after']}" for change in changes)


class CapacityPlanReconciler(Reconciler[CapacityPlan]):
    model = CapacityPlan
    moves = MOVES
    right = Right.CAPACITY_APPLY

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend] = backend_of) -> None:
        self._backend_of = backend_of

    def rows(self) -> QuerySet[CapacityPlan]:
        return CapacityPlan.objects.select_related("pool__cluster", "pool__team")

    def lane_of(self, row: CapacityPlan) -> str:
        """Machines are labelled by their cluster's API."""
        return f"cluster:{row.pool.cluster.name}" if row.kind == CapacityPlanKind.MACHINES else ""

    def next_step(self, row: CapacityPlan, now: datetime) -> Step[CapacityPlan] | None:
        if row.kind == CapacityPlanKind.MACHINES and row.state in RUNNING:
            is_first = row.state == CapacityPlanState.RELEASING
            return (ReleaseMachines if is_first else AcquireMachines)(self._backend_of)
        if row.kind != CapacityPlanKind.WORKERS and row.state in RUNNING:
            return ReleaseCards() if row.state == CapacityPlanState.RELEASING else AcquireCards()
        if row.state == CapacityPlanState.RELEASING:
            return ReleaseWorkers()
        return AcquireWorkers() if row.state == CapacityPlanState.ACQUIRING else None

    def on_move(self, row: CapacityPlan, to: str, note: Any) -> None:
        detail = {"from": row.state, "to": to}
        audit.record(ACTOR, "capacity_plan.move", subject=row, team_id=row.pool.team_id, detail=detail)
        events.publish(CapacityPlanMoved(row.pk, row.pool_id))
        touch("changes", "capacity")
