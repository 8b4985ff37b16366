from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from clusters import selectors as fleet
from clusters import services as clusters
from clusters.states import DeploymentState
from common import events
from common.audit import MAX_REASON
from common.reconcile import Effect, Operation, Outcome, Step, rest, wait
from models_registry import services as registry
from releases import plans, selectors, stored
from releases.events import ReleaseMoved, ServiceChanged
from releases.models import Release, ReleaseMove, Service
from releases.reconcilers.base import ACTOR, PlanStep, finish_step, halt, move
from releases.reconcilers.routing import make_stable
from releases.states import Decision, Halt, ReleaseState, StepState


class Promote(PlanStep[plans.Promote]):
    """All traffic to the candidate, which becomes stable; the workers of the version before bake, or end."""

    name = "promote"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "stable": row.candidate_deployment}

    def act(self, row: Release, operation: Operation) -> None:
        make_stable(row, operation)

    def observe(self, row: Release, operation: Operation) -> DeploymentState:
        return fleet.deployment_status(row.candidate_deployment).state

    def settle(self, row: Release, seen: DeploymentState, now: datetime) -> Outcome:
        if seen in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return halt(row, stored.FAILED_AT_LAST, kind=Halt.ROLLBACK)

        bake = (
            timedelta(seconds=selectors.plan_of(row).bake_seconds) if row.stable_deployment else timedelta(0)
        )

        def serve() -> None:
            finish_step(row, row.step_index, StepState.DONE, note=f"{row.version} serves all traffic.")
            Service.objects.filter(pk=row.service_id).update(
                stable_version=row.version, stable_deployment=row.candidate_deployment, stable_since=now
            )
            if row.stable_deployment and not bake:
                end_workers(row)
            if row.service.alias:
                registry.set_alias(
                    actor=ACTOR,
                    model=row.service.model,
                    alias=row.service.alias,
                    version=row.version,
                    reason=_who_and_why(row),
                    release_id=row.pk,
                )
            events.publish(ServiceChanged(row.service_id))

        note = stored.SERVES % {"version": row.version, "service": row.service.name}
        return move(
            row,
            ReleaseState.PROMOTED,
            note=note,
            save={"candidate_percent": 100, "outcome": note, "bake_until": now + bake if bake else None},
            also=serve,
            after=bake or None,
        )


class EndBake(Step[Release]):
    """The way back by the weight alone is over: the workers of the version before are drained and end."""

    name = "end bake"

    def settle(self, row: Release, seen: Any, now: datetime) -> Outcome:
        if row.bake_until is not None and now < row.bake_until:
            return wait(row.bake_until - now)

        def write() -> None:
            end_workers(row)
            note = stored.BAKE_OVER % {"version": row.from_version}
            ReleaseMove.objects.create(
                release=row, before=row.state, after=row.state, actor=ACTOR.name, note=note
            )
            events.publish(ReleaseMoved(row.pk, row.service_id))

        return rest(save={"bake_until": None}, write=write)


def end_workers(row: Release) -> None:
    """Of the version that the release replaced."""
    clusters.remove_deployment(
        actor=ACTOR, name=row.stable_deployment, reason=f"{row.version} took over in release {row.pk}."
    )


def _who_and_why(row: Release) -> str:
    """What the alias's history keeps: whoever reads it years later asks for people, not for a reconciler."""
    approved = row.approvals.filter(decision=Decision.APPROVE).order_by("pk")
    approvers = ", ".join(dict.fromkeys(approved.values_list("by__username", flat=True)))
    people = f"asked for by {row.requester}" + (f", approved by {approvers}" if approvers else "")
    told = f"Promoted on {row.service.name}, {people}: {row.reason}"
    # The reason alone may be as long as a reason can be.
    return told if len(told) <= MAX_REASON else told[: MAX_REASON - 1] + "…"
