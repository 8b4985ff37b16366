from datetime import datetime, timedelta

from common import events
from common.reconcile import Outcome
from releases import plans, states, stored
from releases.events import ApprovalAsked
from releases.judge import Decision
from releases.models import Approval, Release
from releases.reconcilers.base import halt, move
from releases.reconcilers.traffic import measured
from releases.reconcilers.watching import Judged, Sight, WatchedStep
from releases.states import Halt, ReleaseState


class AskApproval(WatchedStep[plans.Approval]):
    """Wait for a person's word, judging all the while."""

    name = "approval"

    def __init__(self, spec: plans.Approval) -> None:
        super().__init__(spec)
        self.heeds_judge = spec.keep_judging

    def decide(self, row: Release, seen: Sight, view: Judged | None, now: datetime) -> Outcome:
        if row.state == ReleaseState.RUNNING and self._is_certified(view):
            return self.go_on(row, note="Not required: the analysis passed.")
        word = Approval.objects.filter(
            release=row, step_index=row.step_index, plan_hash=row.plan_hash
        ).first()
        if row.state == ReleaseState.RUNNING:
            if word is None:
                return move(
                    row,
                    ReleaseState.WAITING_APPROVAL,
                    note=stored.WAITING,
                    also=lambda: events.publish(ApprovalAsked(row.pk, row.step_index)),
                )
            note = f"{word.by} approved: {word.reason}" if word.reason else f"{word.by} approved."
            return self.go_on(row, note=note, actor=str(word.by), detail={"approval": word.pk})
        if word is not None and word.decision == states.Decision.APPROVE:
            return move(
                row, ReleaseState.RUNNING, actor=str(word.by), note=stored.APPROVED % {"reason": word.reason}
            )
        timeout = timedelta(seconds=self.spec.timeout_seconds)
        if self.spec.on_timeout != "wait" and self.elapsed(row, now) > timeout:
            kind = Halt.REJECT if self.spec.on_timeout == "reject" else Halt.ROLLBACK
            within = plans.duration(self.spec.timeout_seconds)
            return halt(row, stored.NOBODY_DECIDED % {"duration": within}, kind=kind)
        return self.look_again(row, progress=measured(row, seen))

    def _is_certified(self, view: Judged | None) -> bool:
        return (
            self.spec.when == "unless_certified"
            and view is not None
            and view.verdict.decision is Decision.PROMOTE
        )
