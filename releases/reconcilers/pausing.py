from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from common.reconcile import Operation, Step, StepOutcome, move, wait
from freezes.selectors import ActiveFreeze
from releases.judge.verdict import JudgeDecision
from releases.messages import MessageTemplate, ReleaseMessage, text
from releases.models import Release
from releases.reconcilers.cohort import cohort_of
from releases.reconcilers.disturbed import blame
from releases.reconcilers.pace import pace
from releases.reconcilers.watching import TrafficObservation, candidate_fault, judged, look
from releases.selectors.plans import plan_of
from releases.selectors.releases import held_for
from releases.states import ReleaseState

FROZEN = MessageTemplate("release.frozen", _("Frozen by %(name)s."), name=text)
RESUMED = MessageTemplate("release.resumed", _("Resumed."))


class PauseRelease(Step[Release]):
    """Pause it for a person, or while a freeze holds it."""

    name = "pause"

    def __init__(self, held: ActiveFreeze | None = None) -> None:
        self._held = held

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        baseline = dict(row.baseline)
        why = ReleaseMessage.kept("", baseline.pop("pause_reason", None))
        if self._held:
            why = FROZEN(name=self._held.freeze.name)
            baseline["frozen_at"] = now.isoformat()
        return move(ReleaseState.PAUSED, note=why, save={"paused_from": row.state, "baseline": baseline})


class ResumeRelease(Step[Release]):
    name = "resume"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        baseline = dict(row.baseline)
        if frozen_at := baseline.pop("frozen_at", None):
            # No timeout runs while nobody may do anything.
            seconds = (held_for(row) + (now - datetime.fromisoformat(frozen_at))).total_seconds()
            baseline["held"] = {"step": row.step_index, "seconds": seconds}
        return move(row.paused_from, note=RESUMED(), save={"paused_from": "", "baseline": baseline})


class WatchWhilePaused(Step[Release]):
    """Nothing moves forward, but a candidate with traffic that turns bad is still rolled back."""

    name = "watch"

    def observe(self, row: Release, operation: Operation) -> TrafficObservation | None:
        has_traffic = (row.candidate_percent > 0 or cohort_of(row)) and row.stable_deployment
        return look(row, operation.at) if has_traffic else None

    def settle(self, row: Release, seen: TrafficObservation | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(pace.wait())
        view = judged(row, seen, plan_of(row).judge, is_paused=True)
        is_bad = view.verdict.decision is JudgeDecision.ROLL_BACK
        fault = candidate_fault(seen) or view.fault or (view.verdict.message if is_bad else ReleaseMessage())
        if fault:
            return blame(row, fault, now, save=view.save)
        return wait(pace.wait(), save=view.save, write=view.write)
