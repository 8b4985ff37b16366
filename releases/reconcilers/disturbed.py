"""A release whose workers' machine leaves service waits: nobody is judged by what a faulty machine does."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from common import audit, events
from common.reconcile import Effect, Operation, Step, StepOutcome, wait
from releases.events import ReleaseMoved
from releases.judge.verdict import JudgeDecision
from releases.machines import OutageState, standing, trouble_under
from releases.messages import ReleaseMessage
from releases.models import Release
from releases.reconcilers.base import ACTOR, SPLIT, halt
from releases.reconcilers.cohort import cohort_of
from releases.reconcilers.routing import return_traffic, split_traffic
from releases.selectors.releases import held_for, verdict_of
from releases.services.machines import GAVE_UP_WAITING, GOES_ON, hold_release, note_move
from releases.states import Halt

LOOK_EVERY = timedelta(seconds=1)


class AwaitMachine(Step[Release]):
    """Waits until its workers are ready again. Users are spared a candidate none of whose workers answers."""

    name = "await machine"
    effect = Effect.ABSOLUTE

    def __init__(self) -> None:
        self._seen: OutageState | None = None

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"machine": row.disturbance.get("machine", "")}

    def act(self, row: Release, operation: Operation) -> None:
        self._seen = standing(row, operation.at)
        spares = spares_users(row, self._seen)
        if spares == bool(row.baseline.get("spares")):
            return
        if spares:
            return_traffic(row, operation)
        else:
            split_traffic(row, operation, candidate_percent=row.candidate_percent)

    def observe(self, row: Release, operation: Operation) -> OutageState:
        return self._seen or standing(row, operation.at)

    def settle(self, row: Release, seen: OutageState, now: datetime) -> StepOutcome:
        baseline = dict(row.baseline)
        baseline["spares"] = spares_users(row, seen)
        if not seen.is_over:
            return wait(LOOK_EVERY, save={"baseline": baseline})
        since = datetime.fromisoformat(row.disturbance.get("since", now.isoformat()))
        seconds = held_for(row).total_seconds() + (now - since).total_seconds()
        baseline["held"] = {"step": row.step_index, "seconds": seconds}
        # No stretch that is judged or measured reaches back over the wait.
        for name in ("counts", "at", "cohort"):
            baseline.pop(name, None)
        save: dict[str, Any] = {
            "baseline": baseline,
            "progress": {key: value for key, value in row.progress.items() if key not in (*SPLIT, "probes")},
        }
        if (verdict := verdict_of(row)) is not None and verdict.decision is JudgeDecision.ROLL_BACK:
            save["evidence"] = {}  # it was gathered on the faulty machine

        def write() -> None:
            # Whoever was told of another machine meanwhile has written a later moment.
            here = Release.objects.filter(pk=row.pk, disturbed_at=row.disturbed_at)
            if not here.update(disturbed_at=None, disturbance={}):
                return
            told = (GOES_ON if seen.is_whole else GAVE_UP_WAITING)(machine=row.disturbance.get("machine", ""))
            note_move(row, told.text, told.document)
            audit.record(ACTOR, "release.go_on", subject=row, team_id=row.team_id, reason=told.text)
            events.publish(ReleaseMoved(row.pk, row.service_id))

        return wait(timedelta(0), save=save, write=write)


def spares_users(row: Release, seen: OutageState) -> bool:
    """Whether stable answers in the place of a candidate that would get requests and cannot answer."""
    gets_requests = bool(row.candidate_percent or cohort_of(row)) and bool(row.stable_deployment)
    return gets_requests and not seen.candidate_answers and not seen.is_over


def blame(
    release: Release,
    reason: ReleaseMessage,
    now: datetime,
    *,
    kind: Halt = Halt.ROLLBACK,
    save: Mapping[str, Any] | None = None,
) -> StepOutcome:
    """The candidate is at fault, and given up; unless a machine under its workers is: then it waits."""
    trouble = trouble_under(release, now)
    if trouble is None:
        return halt(release, reason, kind=kind, save=save)
    return wait(timedelta(0), save=save or {}, write=lambda: hold_release(release, trouble))
