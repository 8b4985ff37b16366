"""Every write of workloads and of the cards that they hold."""

from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require, require_beyond_a_team
from accounts.states import Right
from capacity.errors import InvalidWorkload, WorkloadNotThere
from capacity.events import WorkloadMoved
from capacity.ledger import ends_at
from capacity.models import Allocation, CapacityPlan, CapacityStop, Pool, Workload
from capacity.planning.lending import CardGrant
from capacity.states import ENDED, HOLDING, PoolKind, WorkloadState
from clusters.backends.kinds import abilities_of
from common import audit, clock, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import kernel

MOST_ARGUMENTS = 100


def submit_workload(*, actor: Actor, team: Team, name: str, pool: Pool, **columns: Any) -> Workload:
    """Queue a workload, which starts when its pool has the cards. Raises NotAllowed, Conflict,
    InvalidWorkload. One that runs as a process beside the control plane takes the right to operate the fleet.
    """
    row = Workload(team=team, name=name, pool=pool, **columns)
    _check(row)
    require(actor, Right.CAPACITY_WRITE, pool.team)
    if abilities_of(pool.cluster.kind).runs_on_host:
        require_beyond_a_team(actor, Right.FLEET_OPERATE)
    team_rows.create(row, actor=actor, right=Right.CAPACITY_WRITE)
    _tell(row)
    kernel.wake(pool)
    return row


def hold_workload(row: Workload, *, actor: Actor, reason: str = "") -> Workload:
    """Suspend a workload: it writes a checkpoint, gives its cards back, and is queued until released.

    Raises NotAllowed, WorkloadNotThere.
    """
    require(actor, Right.CAPACITY_WRITE, row.team)
    return _wish(row, "hold", actor, reason, held_by=actor.name, **_asked(row))


def release_workload(row: Workload, *, actor: Actor, reason: str = "") -> Workload:
    """Let a suspended workload start again. Raises NotAllowed, WorkloadNotThere."""
    require(actor, Right.CAPACITY_WRITE, row.team)
    found = _wish(row, "release", actor, reason, held_by="")
    kernel.wake(row.pool)
    return found


def cancel_workload(row: Workload, *, actor: Actor, reason: str = "") -> Workload:
    """End a workload for good, without a checkpoint. Raises NotAllowed, WorkloadNotThere."""
    require(actor, Right.CAPACITY_WRITE, row.team)
    return _wish(row, "cancel", actor, reason, cancelled_by=actor.name)


def grant_cards(workload: Workload, grant: CardGrant, *, now: datetime) -> bool:
    """Give a queued workload its cards, which starts it; False: somebody was first, or all is stopped."""
    cluster = workload.pool.cluster
    began = Workload(expected_seconds=workload.expected_seconds, started_at=now)
    began.worked_seconds = workload.worked_seconds
    ends = ends_at(began)
    until = datetime.fromtimestamp(ends, UTC) if ends < float("inf") else None
    try:
        with transaction.atomic():
            if CapacityStop.now().is_on:
                return False
            is_first = kernel.interrupt(
                workload,
                to=WorkloadState.STARTING,
                where={"state": WorkloadState.QUEUED, "held_by": "", "cancelled_by": ""},
                state_since=now,
                started_at=now,
                asked_at=None,
                problem="",
                log_tail="",
                runs=workload.runs + 1,
            )
            if not is_first:
                return False
            detail = []
            for part in grant.parts:
                lender = int(part.lender) if part.lender else None
                detail.append({"machine": part.machine, "cards": list(part.cards), "lender": lender})
                for card in part.cards:
                    Allocation.objects.create(
                        cluster=cluster, machine=part.machine, card=card, workload=workload, lender_id=lender,
                        since=now, lease_until=until,
                    )  # fmt: skip
            actor = Actor.system("capacity")
            audit.record(
                actor, "workload.start", subject=workload, detail={"places": detail}, team_id=workload.team_id
            )
            _tell(workload)
    except IntegrityError:
        return False
    return True


def hand_to_queue(workload: Workload, *, now: datetime) -> None:
    """Hand a queued workload to the queue of its cluster, which starts it."""
    columns = {"state_since": now, "started_at": now, "asked_at": None, "problem": "", "log_tail": ""}
    where = {"state": WorkloadState.QUEUED, "held_by": "", "cancelled_by": ""}
    runs = workload.runs + 1
    if CapacityStop.now().is_on:
        return
    if kernel.interrupt(workload, to=WorkloadState.STARTING, where=where, runs=runs, **columns):
        audit.record(Actor.system("capacity"), "workload.queue", subject=workload, team_id=workload.team_id)
        _tell(workload)


def ask_to_give_way(workload: Workload, *, since: datetime, now: datetime) -> None:
    """Ask a workload that holds cards to give them back, once for whoever asks since then."""
    not_yet = Workload.objects.filter(pk=workload.pk, state__in=HOLDING, asked_at=None)
    if not_yet.exclude(refused_at__gte=since).exists():
        kernel.wake(workload, where={"asked_at": None}, asked_at=now)


def call_back(plan: CapacityPlan) -> None:
    """Let workloads that the plan asked to give way, and that have not begun to, keep their cards."""
    asked = Workload.objects.filter(
        pk__in=[change["workload"] for change in plan.changes],
        state__in=(WorkloadState.STARTING, WorkloadState.RUNNING),
        asked_at__gte=plan.created_at,
        held_by="",
        cancelled_by="",
    )
    for workload in asked:
        kernel.wake(workload, where={"asked_at": workload.asked_at}, asked_at=None)


def _asked(row: Workload) -> dict[str, Any]:
    return {"asked_at": clock.now()} if row.state in HOLDING and row.asked_at is None else {}


def _wish(row: Workload, verb: str, actor: Actor, reason: str, **wishes: Any) -> Workload:
    with transaction.atomic():
        if row.state in ENDED or not kernel.wake(row, where={"state": row.state}, **wishes):
            row.refresh_from_db()
            over = _("%(name)s is %(state)s.")
            raise WorkloadNotThere(over % {"name": row, "state": row.get_state_display().lower()})
        audit.record(actor, f"workload.{verb}", subject=row, reason=reason, team_id=row.team_id)
        _tell(row)
    row.refresh_from_db()
    return row


def _tell(row: Workload) -> None:
    events.publish(WorkloadMoved(row.pk))
    touch("changes", "capacity")


def _check(row: Workload) -> None:
    if row.pool.kind == PoolKind.SERVING:
        workers = _("%(pool)s hands out workers to services: choose a pool of machines or cards.")
        raise InvalidWorkload(fields={"pool": [workers % {"pool": row.pool}]})
    words = row.command
    if (
        not isinstance(words, list)
        or not 0 < len(words) <= MOST_ARGUMENTS
        or not all(isinstance(word, str) and "\0" not in word for word in words)
        or not words[0]
    ):
        raise InvalidWorkload(fields={"command": [_("Give a program and its arguments as a list of texts.")]})
    try:
        row.full_clean(exclude=["name", "team", "command", "pool"])
    except ValidationError as error:
        raise InvalidWorkload(fields=error.message_dict) from None
    if not row.writes_checkpoints and row.is_preemptible and not row.may_lose_work:
        lost = _("Without checkpoints a preemptible workload loses its work: allow that, or let it be kept.")
        raise InvalidWorkload(fields={"may_lose_work": [lost]})
