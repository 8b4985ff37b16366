from collections.abc import Mapping
from datetime import datetime
from typing import Any

from clusters import selectors as fleet
from clusters import services as clusters
from clusters.states import DeploymentState
from common import events
from common.audit import MAX_REASON
from common.reconcile import Effect, Operation, Outcome
from models_registry import services as registry
from releases import plans
from releases.events import ServiceChanged
from releases.models import Release, Service
from releases.reconcilers.base import ACTOR, PlanStep, finish_step, halt, move
from releases.reconcilers.routing import make_stable
from releases.states import Decision, Halt, ReleaseState, StepState


class Promote(PlanStep[plans.Promote]):
    """All traffic to the candidate, which becomes stable; the workers of the version before are drained."""

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
            return halt(row, "The candidate's workers failed at the last moment.", kind=Halt.ROLLBACK)

        def serve() -> None:
            finish_step(row, row.step_index, StepState.DONE, note=f"{row.version} serves all traffic.")
            Service.objects.filter(pk=row.service_id).update(
                stable_version=row.version, stable_deployment=row.candidate_deployment, stable_since=now
            )
            if row.stable_deployment:
                clusters.remove_deployment(
                    actor=ACTOR,
                    name=row.stable_deployment,
                    reason=f"{row.version} took over in release {row.pk}.",
                )
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

        note = f"{row.version} serves all traffic of {row.service.name}."
        return move(
            row,
            ReleaseState.PROMOTED,
            note=note,
            save={"candidate_percent": 100, "outcome": note},
            also=serve,
        )


def _who_and_why(row: Release) -> str:
    """What the alias's history keeps: whoever reads it years later asks for people, not for a reconciler."""
    approved = row.approvals.filter(decision=Decision.APPROVE).order_by("pk")
    approvers = ", ".join(dict.fromkeys(approved.values_list("by__username", flat=True)))
    people = f"asked for by {row.requester}" + (f", approved by {approvers}" if approvers else "")
    told = f"Promoted on {row.service.name}, {people}: {row.reason}"
    # The reason alone may be as long as a reason can be.
    return told if len(told) <= MAX_REASON else told[: MAX_REASON - 1] + "…"
