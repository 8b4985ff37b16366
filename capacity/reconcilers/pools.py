"""Pools look and plan every ten seconds; plans take workers away first, and then give them."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from capacity.card_looks import CardLook, look_at_cards
from capacity.events import CapacityPlanMoved, WorkersMoved
from capacity.fragmentation import record_fragments
from capacity.models import CapacityPlan, CapacityStop, Pool, PoolMember, Workload
from capacity.observing import PoolLook, look_at, stored
from capacity.planning.learning import learned
from capacity.quotas import KeeperOf, QuotaLook, keep_quota, keeper_of
from capacity.reconcilers.card_moves import AcquireCards, ReleaseCards, ended
from capacity.services.policies import record_loads
from capacity.services.workloads import grant_cards, hand_to_queue
from capacity.states import (
    MOVES,
    RUNNING,
    CapacityPlanKind,
    CapacityPlanState,
    Granularity,
    PoolMode,
    WorkloadAdmission,
    WorkloadState,
)
from clusters import selectors as fleet
from clusters.errors import DeploymentGone, DeploymentMissing
from clusters.services.deployments import scale_deployment
from common import audit, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import Effect, Operation, Reconciler, Recurring, Step, StepOutcome, kernel, move, wait

ACTOR = Actor.system("capacity")
START_LIMIT = timedelta(minutes=10)
"""Workers that do not answer by then make their plan fail; they are left as they are."""
SOON = timedelta(seconds=1)


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
        if row.granularity == Granularity.WORKER:
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
    if plan is not None and _what(plan.changes) != _what(seen.changes):
        columns = {"state_since": now, "ended_at": now}
        why = _("What it was made of has changed since.")
        kernel.interrupt(plan, to=CapacityPlanState.SUPERSEDED, where=None, reason=why, **columns)
        plan = None
    if plan is None and seen.changes:
        looks = [stored(look) for look in seen.looks]
        changes = list(seen.changes)
        gain = dict(seen.gain) if isinstance(seen, CardLook) else {}
        plan = CapacityPlan.objects.create(pool=pool, kind=seen.kind, changes=changes, looks=looks, gain=gain)
        events.publish(CapacityPlanMoved(plan.pk, pool.pk))
    if plan is not None and pool.state == PoolMode.AUTOMATIC:
        kernel.interrupt(plan, to=CapacityPlanState.RELEASING, state_since=now, decided_by=ACTOR.name)
        audit.record(ACTOR, "capacity_plan.apply", subject=plan, team_id=pool.team_id)
        events.publish(CapacityPlanMoved(plan.pk, pool.pk))


def _what(changes: Any) -> list[str]:
    return sorted(f"{change.get('service', change.get('workload'))} {change['after']}" for change in changes)


@dataclass(frozen=True, slots=True)
class ScaleLook:
    """State of a plan's changes to numbers of workers."""

    is_stopped: bool
    is_there: bool
    refusal: str = ""


class Scale(Step[CapacityPlan]):
    """Set the workers of some services to what the plan says, and wait until they are so."""

    effect = Effect.ABSOLUTE

    def __init__(self) -> None:
        self._refusal = ""

    @abstractmethod
    def chosen(self, row: CapacityPlan) -> list[dict[str, Any]]:
        """The changes of the plan that this step makes."""

    @abstractmethod
    def is_there(self, chosen: list[dict[str, Any]]) -> bool:
        """Whether the workers are as the changes say."""

    @abstractmethod
    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        """Return the outcome once the workers are as the changes say."""

    def intent(self, row: CapacityPlan) -> Mapping[str, Any]:
        return {change["deployment"]: change["after"] for change in self.chosen(row)}

    def act(self, row: CapacityPlan, operation: Operation) -> None:
        for change in self.chosen(row):
            try:
                _set_workers(row, change, operation)
            except (DeploymentMissing, DeploymentGone) as error:
                self._refusal = str(error)

    def observe(self, row: CapacityPlan, operation: Operation) -> ScaleLook:
        refusal = self._refusal or _foreign_scale(self.chosen(row))
        return ScaleLook(CapacityStop.now().is_on, self.is_there(self.chosen(row)), refusal)

    def settle(self, row: CapacityPlan, seen: ScaleLook, now: datetime) -> StepOutcome:
        if seen.is_stopped:
            return ended(CapacityPlanState.STOPPED, _("The kill switch was thrown."), now)
        if seen.refusal:
            return ended(CapacityPlanState.FAILED, seen.refusal, now)
        if seen.is_there:
            return self.next(row, now)
        if now - row.state_since > START_LIMIT:
            late = _("Workers did not become ready, or did not end, within %(minutes)s minutes.")
            return ended(CapacityPlanState.FAILED, late % {"minutes": START_LIMIT.seconds // 60}, now)
        return wait(SOON)


def _foreign_scale(changes: list[dict[str, Any]]) -> str:
    """Say who has set the workers of a service past Slipway; empty: nobody."""
    for change in changes:
        found = fleet.deployments_of(change["service"]).filter(name=change["deployment"]).first()
        if found is not None and found.scaled_by_others:
            foreign = _("%(by)s has set the workers of %(service)s to %(count)s past Slipway.")
            count = found.wanted_replicas
            return foreign % {"by": found.replicas_by or "?", "service": change["service"], "count": count}
    return ""


def _set_workers(row: CapacityPlan, change: Mapping[str, Any], operation: Operation) -> None:
    """Scale in one transaction with a look at the plan's fence: a lost lease changes nothing."""
    with transaction.atomic():
        mine = CapacityPlan.objects.filter(pk=row.pk, fence=operation.fence).select_for_update()
        if not mine.exists() or CapacityStop.now().is_on:
            return
        found = fleet.deployment(change["deployment"])
        if found.scaled_by_others or found.replicas == change["after"]:
            return
        reason = _("Capacity plan %(plan)s") % {"plan": row.pk}
        scale_deployment(actor=ACTOR, name=change["deployment"], replicas=change["after"], reason=reason)
        events.publish(WorkersMoved(change["service"], change["after"]))


class ReleaseWorkers(Scale):
    """Services that have too many give workers away; those end their requests first."""

    name = "release"

    def chosen(self, row: CapacityPlan) -> list[dict[str, Any]]:
        return [change for change in row.changes if change["after"] < change["before"]]

    def is_there(self, chosen: list[dict[str, Any]]) -> bool:
        counts = {change["deployment"]: change["after"] for change in chosen}
        now = fleet.deployments_now(counts)
        return all(name in now and now[name].load.workers <= count for name, count in counts.items())

    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        return move(CapacityPlanState.ACQUIRING, save={"state_since": now})


class AcquireWorkers(Scale):
    """Services that need more get workers, which load their files and become ready."""

    name = "acquire"

    def chosen(self, row: CapacityPlan) -> list[dict[str, Any]]:
        return [change for change in row.changes if change["after"] > change["before"]]

    def is_there(self, chosen: list[dict[str, Any]]) -> bool:
        seen = fleet.readiness([change["deployment"] for change in chosen])
        counts = {change["deployment"]: change["after"] for change in chosen}
        return all(name in seen and seen[name].ready >= count for name, count in counts.items())

    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        took = (now - row.state_since).total_seconds()

        def write() -> None:
            for change in self.chosen(row):
                for one in PoolMember.objects.filter(service=change["service"]):
                    one.switch_seconds = learned(one.switch_seconds, took)
                    one.moved_at = now
                    one.save(update_fields=["switch_seconds", "moved_at"])
            if row.undoes is not None:
                kernel.interrupt(row.undoes, to=CapacityPlanState.UNDONE, state_since=now)

        return move(
            CapacityPlanState.DONE, save={"state_since": now, "ended_at": now}, write=write, after=None
        )


class CapacityPlanReconciler(Reconciler[CapacityPlan]):
    model = CapacityPlan
    moves = MOVES
    right = Right.CAPACITY_APPLY

    def next_step(self, row: CapacityPlan, now: datetime) -> Step[CapacityPlan] | None:
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
