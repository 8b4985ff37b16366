"""How a release advances: the plan's steps one after the other, and the way back that outranks them all."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from django.db.models import OuterRef, QuerySet, Subquery

from accounts.states import Right
from common import events
from common.reconcile import EPOCH, Reconciler, Step
from releases import selectors, stored
from releases.events import ReleaseMoved
from releases.models import Release, ReleaseMove, ReleaseStep
from releases.reconcilers.bake import EndBake
from releases.reconcilers.base import Executor
from releases.reconcilers.halting import next_step_back
from releases.reconcilers.pausing import Pause, Resume, WatchWhilePaused
from releases.reconcilers.starting import Begin
from releases.states import MOVES, ReleaseState


class ReleaseReconciler(Reconciler[Release]):
    model = Release
    right = Right.RELEASES_OPERATE

    def rows(self) -> QuerySet[Release]:
        """With its service, and the moment since when it is at its step."""
        began = ReleaseStep.objects.filter(release=OuterRef("pk"), index=OuterRef("step_index"))
        rows = Release.objects.select_related("service").order_by()
        return rows.annotate(step_began=Subquery(began.values("started_at")[:1]))

    def lane_of(self, row: Release) -> str:
        step = self.next_step(row, EPOCH)
        return step.lane(row) if isinstance(step, Executor) else ""

    def next_step(self, row: Release, now: datetime) -> Step[Release] | None:
        state = ReleaseState(row.state)
        if MOVES.is_final(state):
            return EndBake() if row.bake_until is not None else None
        if row.halt:
            return next_step_back(row)
        if state == ReleaseState.PAUSED:
            return WatchWhilePaused() if row.paused_at else Resume()
        if row.paused_at:
            return Pause()
        if state == ReleaseState.PENDING:
            return Begin()
        return cast("Executor[Any]", selectors.plan_of(row).steps[row.step_index].executor())

    def on_stuck(self, row: Release, reason: str) -> Mapping[str, Any]:
        if MOVES.is_final(ReleaseState(row.state)):
            return {}  # it has ended well, and only the old workers stay
        note = stored.GAVE_UP % {"attempts": self.max_attempts, "fault": reason}
        ReleaseMove.objects.create(
            release=row, before=row.state, after=ReleaseState.STUCK, actor="slipway", note=note
        )
        events.publish(ReleaseMoved(row.pk, row.service_id))
        return {"state": ReleaseState.STUCK, "stuck_from": row.state}

    def on_revive(self, row: Release, by: str, reason: str) -> Mapping[str, Any]:
        if row.state != ReleaseState.STUCK:
            return {}
        ReleaseMove.objects.create(
            release=row,
            before=ReleaseState.STUCK,
            after=row.stuck_from,
            actor=by,
            note=reason or stored.TRIED_AGAIN,
        )
        events.publish(ReleaseMoved(row.pk, row.service_id))
        return {"state": row.stuck_from, "stuck_from": ""}
