"""Writes of pools, their members and plans, and of the kill switch."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, Sum
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require, require_beyond_a_team
from accounts.states import Right
from capacity.changes import given_back, parts_of
from capacity.decisions import digest_of, inputs_of, is_as_made
from capacity.disruption import blocked
from capacity.errors import CapacityStopped, InvalidPool, PlanNotOpen
from capacity.events import CapacityPlanMoved
from capacity.fragmentation import plan_defragmentation
from capacity.ledger import machine_names
from capacity.machines import SERVICE_LABEL, selects_machines
from capacity.models import (
    Allocation,
    CapacityPlan,
    CapacityStop,
    Pool,
    PoolMember,
    ServiceGroups,
    Workload,
)
from capacity.observing import stable_target
from capacity.planning.errors import PlanningError
from capacity.pool_checks import check_machines, check_nobody_waits
from capacity.selectors import services_for
from capacity.services.groups import release_workers
from capacity.states import (
    RUNNING,
    CapacityPlanKind,
    CapacityPlanState,
    Granularity,
    PoolKind,
    PoolMode,
    WorkloadAdmission,
)
from clusters import selectors as fleet
from clusters.models import Cluster
from common import audit, clock, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import kernel

STOP_KEY = 1
UNIT = {
    PoolKind.SERVING: Granularity.WORKER,
    PoolKind.TRAINING: Granularity.MACHINE,
    PoolKind.SMALL_JOBS: Granularity.CARD,
}
"""Granularity of a pool by its kind, unless it is told otherwise."""


def create_pool(*, actor: Actor, team: Team, name: str, cluster: Cluster, **settings: Any) -> Pool:
    """Make a pool, which advises unless told otherwise. Raises NotAllowed, Conflict, InvalidPool."""
    settings.setdefault("granularity", UNIT[settings.get("kind", PoolKind.SERVING)])
    row = Pool(team=team, name=name, cluster=cluster, **settings)
    if row.state == PoolMode.AUTOMATIC:
        require(actor, Right.CAPACITY_APPLY, team)
    _check(row)
    check_machines(row)
    row.next_at = clock.now()
    team_rows.create(row, actor=actor, right=Right.CAPACITY_WRITE)
    touch("changes", "capacity")
    return row


def change_pool(
    row: Pool, *, actor: Actor, expected: int | None = None, reason: str = "", **changes: Any
) -> Pool:
    """Raises NotAllowed, InvalidPool, Stale. To let a pool go by itself takes the right to apply plans."""
    require(actor, Right.CAPACITY_WRITE, row.team)
    if changes.get("state", row.state) == PoolMode.AUTOMATIC != row.state:
        require(actor, Right.CAPACITY_APPLY, row.team)
    is_readmitted = changes.get("admission", row.admission) != row.admission
    with transaction.atomic():
        row.change(expected=expected, **changes)
        _check(row)
        _check_guarantees(row)
        check_machines(row)
        if is_readmitted:
            check_nobody_waits(row)
        kernel.wake(row)
        audit.record(actor, "pool.change", subject=row, reason=reason, detail=changes, team_id=row.team_id)
        touch("changes", "capacity")
    return row


def remove_pool(row: Pool, *, actor: Actor, reason: str = "") -> None:
    """The services keep their workers. Raises NotAllowed, and PlanNotOpen while a plan is under way."""
    require(actor, Right.CAPACITY_WRITE, row.team)
    with transaction.atomic():
        if row.plans.filter(state__in=RUNNING).exists():
            raise PlanNotOpen(_("A plan of the pool is under way; stop it, or wait for its end."))
        if row.admission == WorkloadAdmission.KUEUE or row.quota is not None:
            raise PlanNotOpen(
                _("Kueue has a quota of the pool: let Slipway admit its workloads first, which removes it.")
            )
        Allocation.objects.filter(lender=row).exclude(service="").delete()
        if row.workloads.exists() or Allocation.objects.filter(lender=row).exists():
            raise PlanNotOpen(_("The pool has workloads, or has lent cards; remove or end those first."))
        audit.record(actor, "pool.remove", subject=row, reason=reason, team_id=row.team_id)
        for groups in ServiceGroups.objects.filter(member__pool=row):
            release_workers(groups)
        row.delete()
        touch("changes", "capacity")


def set_membership(
    pool: Pool,
    *,
    actor: Actor,
    service: str,
    guarantee: int,
    limit: int,
    weight: float = 1.0,
    reason: str = "",
) -> PoolMember:
    """Put a service into the pool, or change its share. Raises NotAllowed, InvalidPool."""
    require(actor, Right.CAPACITY_WRITE, pool.team, service=service)
    team = services_for(actor, pool).get(service)
    if team is None:
        none = _("%(service)s has no workers in %(cluster)s that you may move.")
        raise InvalidPool(fields={"service": [none % {"service": service, "cluster": pool.cluster}]})
    require(actor, Right.CAPACITY_WRITE, team, service=service)
    if pool.granularity == Granularity.MACHINE:
        _check_selects(service)
    with transaction.atomic():
        pool.change()
        row = PoolMember.objects.filter(service=service).first() or PoolMember(service=service)
        if row.pool_id and row.pool_id != pool.pk:
            taken = _("%(service)s is in the pool %(pool)s; take it out there first.")
            raise InvalidPool(fields={"service": [taken % {"service": service, "pool": row.pool}]})
        row.pool, row.guarantee, row.limit, row.weight = pool, guarantee, limit, weight
        _check(row)
        row.save()
        _check_guarantees(pool)
        detail = {"service": service, "guarantee": guarantee, "limit": limit, "weight": weight}
        audit.record(actor, "pool.member", subject=pool, reason=reason, detail=detail, team_id=pool.team_id)
        kernel.wake(pool)
        touch("changes", "capacity")
    return row


def set_members(pool: Pool, *, actor: Actor, members: Sequence[Mapping[str, Any]]) -> None:
    """Let these services and no others be in the pool. Raises NotAllowed, InvalidPool."""
    names = [one["service"] for one in members]
    present = {row.service: row for row in PoolMember.objects.filter(pool=pool).select_related("pool__team")}
    with transaction.atomic():
        for name, row in present.items():
            if name not in names:
                remove_membership(row, actor=actor)
        for one in members:
            kept = present.get(one["service"])
            if kept is None or any(getattr(kept, field) != value for field, value in one.items()):
                set_membership(pool, actor=actor, **one)


def remove_membership(row: PoolMember, *, actor: Actor, reason: str = "") -> None:
    """The service leaves the pool with the workers that it has. Raises NotAllowed."""
    require(actor, Right.CAPACITY_WRITE, row.pool.team, service=row.service)
    with transaction.atomic():
        detail = {"service": row.service}
        audit.record(
            actor, "pool.leave", subject=row.pool, reason=reason, detail=detail, team_id=row.pool.team_id
        )
        for groups in ServiceGroups.objects.filter(member=row):
            release_workers(groups)
        row.delete()
        touch("changes", "capacity")


def apply_plan(row: CapacityPlan, *, actor: Actor, reason: str = "") -> CapacityPlan:
    """Begin a proposed plan. Raises NotAllowed, CapacityStopped, PlanNotOpen."""
    require(actor, Right.CAPACITY_APPLY, row.pool.team)
    _refuse_while_stopped()
    _refuse_altered(row)
    return _decide(row, "apply", CapacityPlanState.RELEASING, actor, reason)


def reject_plan(row: CapacityPlan, *, actor: Actor, reason: str = "") -> CapacityPlan:
    """Raises NotAllowed, PlanNotOpen."""
    require(actor, Right.CAPACITY_APPLY, row.pool.team)
    return _decide(row, "reject", CapacityPlanState.REJECTED, actor, reason)


def undo_plan(row: CapacityPlan, *, actor: Actor, reason: str = "") -> CapacityPlan:
    """Make and begin the plan that gives every service what it had. Raises as `apply_plan` does."""
    require(actor, Right.CAPACITY_APPLY, row.pool.team)
    _refuse_while_stopped()
    _refuse_altered(row)
    S = CapacityPlanState
    if row.state not in (S.DONE, S.FAILED, S.STOPPED) or hasattr(row, "undone_by"):
        raise PlanNotOpen(_("Only a plan that ended can be undone, and once."))
    if row.kind in (CapacityPlanKind.WORKLOADS, CapacityPlanKind.FRAGMENTS):
        _refuse_taken_cards(row)
    back = [
        {
            **change,
            **given_back(change),
            "before": change["after"],
            "after": change["before"],
            "why": "undone",
        }
        for change in row.changes
    ]
    with transaction.atomic():
        proposed = row.pool.plans.filter(state=S.PROPOSED)
        for other in proposed:
            kernel.interrupt(other, to=S.SUPERSEDED, ended_at=clock.now())
        try:
            with transaction.atomic():
                made = CapacityPlan(
                    pool=row.pool,
                    kind=row.kind,
                    changes=back,
                    undoes=row,
                    state=S.RELEASING,
                    decided_by=actor.name,
                    reason=reason,
                    next_at=clock.now(),
                )
                made.digest = digest_of(made)
                made.save()
        except IntegrityError:
            raise PlanNotOpen(_("Another plan of the pool is under way.")) from None
        if row.kind == CapacityPlanKind.WORKLOADS:
            # Or the next look would plan the same again.
            stopped = [change["workload"] for change in back if change["before"]]
            for workload in Workload.objects.filter(pk__in=stopped):
                kernel.wake(workload, held_by=actor.name)
        audit.record(
            actor, "capacity_plan.undo", subject=row, reason=reason, team_id=row.pool.team_id,
            detail={"digest": row.digest, "by": made.digest},
        )  # fmt: skip
        events.publish(CapacityPlanMoved(made.pk, row.pool_id))
        touch("changes", "capacity")
    return made


def propose_defragmentation(
    pool: Pool, *, actor: Actor, cards: int, machines: int = 1, dry_run: bool = False, reason: str = ""
) -> CapacityPlan:
    """Plan moves that free machines. `dry_run`: the plan is not saved.

    Raises NotAllowed, InvalidPool, PlanNotOpen where another plan of the pool is open or none helps.
    """
    require(actor, Right.CAPACITY_WRITE, pool.team)
    if pool.kind == PoolKind.SERVING:
        raise InvalidPool(fields={"pool": [_("It hands out workers, which are never scattered.")]})
    if pool.admission == WorkloadAdmission.KUEUE:
        raise InvalidPool(fields={"pool": [_("Kueue places its workloads: Slipway moves none of them.")]})
    try:
        found = plan_defragmentation(pool, cards=cards, machines=machines, blocked=blocked)
    except PlanningError as error:
        raise InvalidPool(fields={error.field: [error.reason]}) from None
    row = CapacityPlan(
        pool=pool,
        kind=CapacityPlanKind.FRAGMENTS,
        changes=list(found.changes),
        gain=found.gain,
        cost=float(found.gain["cost"]),
        inputs=inputs_of(pool),
        reason=reason,
    )
    row.digest = digest_of(row)
    if dry_run:
        return row
    if not found.changes:
        raise PlanNotOpen(_("No moves free a machine: too few cards are free, or too few workloads move."))
    try:
        with transaction.atomic():
            row.save()
            audit.record(actor, "capacity_plan.propose", subject=row, reason=reason, team_id=pool.team_id)
            events.publish(CapacityPlanMoved(row.pk, pool.pk))
            touch("changes", "capacity")
    except IntegrityError:
        raise PlanNotOpen(_("Another plan of the pool is open: apply or reject it first.")) from None
    return row


def stop(*, actor: Actor, reason: str = "") -> CapacityStop:
    """Throw the kill switch: no plan begins or goes on, traffic stays. Raises NotAllowed, OutOfScope."""
    return _switch(actor, "stop", reason, is_on=True)


def resume(*, actor: Actor, reason: str = "") -> CapacityStop:
    """Let plans begin again; those that were stopped stay so. Raises NotAllowed, OutOfScope."""
    return _switch(actor, "resume", reason, is_on=False)


def _check_selects(service: str) -> None:
    """Raises InvalidPool where its pods would stand on machines of others."""
    stable = fleet.deployments_of(service).filter(name=stable_target(service)).first()
    if stable is None or not selects_machines(stable):
        label = f"{SERVICE_LABEL}={service}"
        words = _("Its pods do not select the machines that it is given: set its node selector to %(label)s.")
        raise InvalidPool(fields={"service": [words % {"label": label}]})


def _refuse_taken_cards(row: CapacityPlan) -> None:
    """Raises PlanNotOpen where somebody else holds by now what the plan took from a workload."""
    moved = [change["workload"] for change in row.changes]
    for change in row.changes:
        for place in parts_of(change["before"]):
            taken = Allocation.objects.filter(
                cluster=row.pool.cluster_id, machine=place["machine"], card__in=place["cards"]
            )
            foreign = taken.filter(Q(workload=None) | ~Q(workload__in=moved))
            if other := foreign.select_related("workload").first():
                held = _("%(holder)s holds %(card)s now.")
                raise PlanNotOpen(held % {"holder": other.holder, "card": other})


def _refuse_altered(row: CapacityPlan) -> None:
    if not is_as_made(row):
        raise PlanNotOpen(
            _("The plan was altered after it was made: it does not match its hash. Nothing follows from it.")
        )


def _refuse_while_stopped() -> None:
    if CapacityStop.now().is_on:
        raise CapacityStopped(_("Capacity is stopped; resume it first."))


def _switch(actor: Actor, verb: str, reason: str, *, is_on: bool) -> CapacityStop:
    require_beyond_a_team(actor, Right.CAPACITY_APPLY)
    with transaction.atomic():
        columns = {"is_on": is_on, "changed_by": actor.name, "reason": reason, "changed_at": clock.now()}
        row, _made = CapacityStop.objects.update_or_create(pk=STOP_KEY, defaults=columns)
        audit.record(actor, f"capacity.{verb}", subject=row, reason=reason)
        for plan in CapacityPlan.objects.filter(state__in=RUNNING):
            kernel.wake(plan)
        for pool in Pool.objects.all():
            kernel.wake(pool)
        touch("changes", "capacity")
    return row


def _decide(row: CapacityPlan, verb: str, to: CapacityPlanState, actor: Actor, reason: str) -> CapacityPlan:
    with transaction.atomic():
        ended: dict[str, Any] = {"ended_at": clock.now()} if to == CapacityPlanState.REJECTED else {}
        is_open = row.state == CapacityPlanState.PROPOSED and kernel.interrupt(
            row, to=to, decided_by=actor.name, reason=reason, state_since=clock.now(), **ended
        )
        if not is_open:
            row.refresh_from_db()
            raise PlanNotOpen(
                _("The plan is %(state)s and not proposed any more.")
                % {"state": row.get_state_display().lower()}
            )
        audit.record(
            actor, f"capacity_plan.{verb}", subject=row, reason=reason, team_id=row.pool.team_id,
            detail={"digest": row.digest},
        )  # fmt: skip
        events.publish(CapacityPlanMoved(row.pk, row.pool_id))
        touch("changes", "capacity")
    row.refresh_from_db()
    return row


def _check(row: Pool | PoolMember) -> None:
    try:
        row.full_clean(exclude=["pool"] if isinstance(row, PoolMember) else ["name", "team"])
    except ValidationError as error:
        raise InvalidPool(fields=error.message_dict) from None
    if isinstance(row, PoolMember) and row.guarantee > row.limit:
        few = _("A guarantee of %(guarantee)s is more than the limit of %(limit)s.")
        raise InvalidPool(fields={"guarantee": [few % {"guarantee": row.guarantee, "limit": row.limit}]})


def _check_guarantees(pool: Pool) -> None:
    promised = pool.memberships.aggregate(total=Sum("guarantee"))["total"] or 0
    if pool.granularity == Granularity.MACHINE:
        has = len(machine_names(pool))
        if pool.kind == PoolKind.SERVING and promised > has:
            over = _("The services are guaranteed %(promised)s machines; the pool has %(machines)s.")
            raise InvalidPool(fields={"guarantee": [over % {"promised": promised, "machines": has}]})
        return
    if promised > pool.workers:
        over = _("The services are guaranteed %(promised)s workers; the pool has %(workers)s.")
        told = over % {"promised": promised, "workers": pool.workers}
        raise InvalidPool(fields={"guarantee": [told]})
