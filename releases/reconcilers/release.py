"""How a release advances: the plan's steps one after the other, and the way back that outranks them all."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, cast

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.utils.translation import gettext_lazy as _

from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.reconcile import EPOCH, NotKnownHere, Reconciler, Step
from common.sentences import listed
from freezes.selectors import over
from gateway.models import Gateway
from releases.events import ReleaseEnded, ReleaseMoved
from releases.freezing import freeze_holding
from releases.messages import MessageTemplate, ReleaseMessage, count, text
from releases.models import Release, ReleaseMove, ReleaseStep
from releases.reconcilers.bake import EndBake
from releases.reconcilers.base import ACTOR, Executor
from releases.reconcilers.disturbed import AwaitMachine
from releases.reconcilers.halting import next_step_back
from releases.reconcilers.pausing import PauseRelease, ResumeRelease, WatchWhilePaused
from releases.reconcilers.starting import BeginRelease
from releases.selectors.plans import plan_of
from releases.states import MOVES, Halt, ReleaseState

GAVE_UP = MessageTemplate(
    "release.gave_up",
    _("Gave up after %(attempts)s attempts: %(fault)s"),
    attempts=count,
    fault=text,
)
TRIED_AGAIN = MessageTemplate("release.tried_again", _("Tried again."))


class ReleaseReconciler(Reconciler[Release]):
    model = Release
    right = Right.RELEASES_OPERATE
    moves = MOVES

    def rows(self) -> QuerySet[Release]:
        """Read releases with their service, the start of their step, and the host of their gateway."""
        began = ReleaseStep.objects.filter(release=OuterRef("pk"), index=OuterRef("step_index"))
        splits = Gateway.objects.filter(cluster=OuterRef("service__cluster"))
        rows = Release.objects.select_related("service").order_by()
        freezes = over(
            team=OuterRef("team"), service=OuterRef("service__name"), cluster=OuterRef("service__cluster")
        )
        return rows.annotate(
            step_began=Subquery(began.values("started_at")[:1]),
            host=Subquery(splits.values("host")[:1]),
            has_freezes=Exists(freezes),
        )

    def log_fields(self, row: Release) -> Mapping[str, Any]:
        return {"release": row.pk, "service": row.service.name}

    def lane_of(self, row: Release) -> str:
        step = self.next_step(row, EPOCH)
        return step.lane(row) if isinstance(step, Executor) else ""

    def host_of(self, row: Release) -> str:
        """Return the host of the gateway, and of the workers that are asked past it."""
        return getattr(row, "host", None) or ""

    def next_step(self, row: Release, now: datetime) -> Step[Release] | None:
        state = ReleaseState(row.state)
        if MOVES.is_final(state):
            return EndBake() if row.bake_until is not None else None
        if row.halt and row.halt not in Halt.values:
            raise NotKnownHere.step(row.halt)
        if row.halt:
            return next_step_back(row)
        if row.disturbed_at is not None and state != ReleaseState.PENDING:
            return AwaitMachine()
        held = row.paused_at is None and freeze_holding(row)
        if state == ReleaseState.PAUSED:
            return WatchWhilePaused() if row.paused_at or held else ResumeRelease()
        if row.paused_at or held:
            return PauseRelease(held or None)
        if state == ReleaseState.PENDING:
            return BeginRelease()
        return cast("Executor[Any]", plan_of(row).steps[row.step_index].executor())

    def on_move(self, row: Release, to: str, note: ReleaseMessage | Literal[""]) -> None:
        before, actor, told = row.state, _mover(row, to), note or ReleaseMessage()
        _note(row, to, actor=actor, note=told)
        if MOVES.is_final(ReleaseState(to)):
            events.publish(ReleaseEnded(row.pk, row.service_id, to))
        audit.record(
            Actor.system(actor),
            f"release.{to}",
            subject=row,
            team_id=row.team_id,
            reason=told.text,
            detail={"before": before},
        )

    def on_stuck(self, row: Release, reason: str) -> Mapping[str, Any]:
        if MOVES.is_final(ReleaseState(row.state)):
            return {}  # it has ended well, and only the old workers stay
        note = GAVE_UP(attempts=self.max_attempts, fault=reason)
        _note(row, ReleaseState.STUCK, actor=ACTOR.name, note=note)
        return {"state": ReleaseState.STUCK, "stuck_from": row.state}

    def on_revive(self, row: Release, by: str, reason: str) -> Mapping[str, Any]:
        if row.state != ReleaseState.STUCK:
            return {}
        _note(row, row.stuck_from, actor=by, note=ReleaseMessage(words=reason) or TRIED_AGAIN())
        return {"state": row.stuck_from, "stuck_from": ""}


def _note(row: Release, to: str, *, actor: str, note: ReleaseMessage) -> None:
    """The history of a move that the table allows."""
    MOVES.check(ReleaseState(row.state), ReleaseState(to))
    ReleaseMove.objects.create(
        release=row, before=row.state, after=to, actor=actor, note=note.text, message=note.document
    )
    events.publish(ReleaseMoved(row.pk, row.service_id))


def _mover(row: Release, to: str) -> str:
    """Return on whose wish the release leaves its state."""
    if row.halt:
        return row.halted_by
    if to == ReleaseState.PAUSED:
        return row.paused_by or ACTOR.name
    if row.state == ReleaseState.WAITING_APPROVAL:
        approvals = row.approvals.filter(step_index=row.step_index).select_related("by").order_by("pk")
        return listed(str(one.by) for one in approvals)[:200] or ACTOR.name
    return ACTOR.name
