"""The way back: every request to stable first, the candidate's workers after."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.services import deployments
from clusters.states import DeploymentState
from common.reconcile import Effect, Operation, Step, StepOutcome, kernel, move, wait
from releases.models import Release
from releases.reconcilers.base import ACTOR, finish_step
from releases.reconcilers.leaving import gateway_has_left
from releases.reconcilers.routing import return_traffic
from releases.states import ENDS, STEP_ENDS, Halt, ReleaseState, StepState


def next_step_back(release: Release) -> Step[Release]:
    if release.state != ReleaseState.ROLLING_BACK:
        return ReturnTraffic()
    return StopCandidate()


class ReturnTraffic(Step[Release]):
    """Return all traffic to stable by one absolute set, before anything else is written."""

    name = "return traffic"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "stable": row.stable_deployment}

    def act(self, row: Release, operation: Operation) -> None:
        if row.stable_deployment:
            return_traffic(row, operation)

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        def close_step() -> None:
            ends = STEP_ENDS[Halt(row.halt)]
            finish_step(row, row.step_index, ends, note=row.told_outcome, actor=row.halted_by)
            row.steps.filter(state=StepState.PENDING).update(state=StepState.NOT_RUN)

        return move(
            ReleaseState.ROLLING_BACK,
            note=row.told_outcome,
            save={"candidate_percent": 0, "paused_at": None, "paused_by": ""},
            write=close_step,
        )


class StopCandidate(Step[Release]):
    name = "stop candidate"
    effect = Effect.ABSOLUTE

    def act(self, row: Release, operation: Operation) -> None:
        if row.stable_deployment and not gateway_has_left(
            row.service.name, since=row.halted_at, now=kernel.clock()
        ):
            return  # requests of clients still go there
        try:
            deployments.remove_deployment(actor=ACTOR, name=row.candidate_deployment, reason=row.outcome)
        except DeploymentMissing:
            return  # the release gave up before it had one

    def observe(self, row: Release, operation: Operation) -> bool:
        try:
            return fleet.deployment_status(row.candidate_deployment).state == DeploymentState.REMOVED
        except DeploymentMissing:
            return True

    def settle(self, row: Release, seen: bool, now: datetime) -> StepOutcome:
        if not seen:
            return wait(timedelta(seconds=0.5))
        return move(ENDS[Halt(row.halt)], note=row.told_outcome, save={"ended_at": now}, after=None)
