"""All traffic to the candidate, which becomes stable."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from clusters import selectors as fleet
from clusters.states import DeploymentState
from common import events
from common.audit import MAX_REASON
from common.reconcile import Effect, Operation, StepOutcome, move
from models_registry.services import aliases
from releases.events import ServiceChanged
from releases.held_workers import is_held
from releases.messages import MessageTemplate, text
from releases.models import Release, Service
from releases.plans.step import StepFault, StepPosition, StepSpec
from releases.reconcilers.bake import LOOK_AT_BUDGET, end_workers
from releases.reconcilers.base import ACTOR, Executor, finish_step
from releases.reconcilers.disturbed import blame
from releases.reconcilers.leaving import gateway_has_left
from releases.reconcilers.routing import make_stable
from releases.selectors.plans import plan_of
from releases.states import ApprovalDecision, ReleaseState, StepState
from releases.steps.deploy import DeployStep, no_candidate

FAILED_AT_LAST = MessageTemplate(
    "promote.failed", gettext_lazy("The candidate's workers failed just before the promotion.")
)
SHIFTED = MessageTemplate(
    "promote.shifted", gettext_lazy("All traffic was shifted to %(version)s."), version=text
)
SERVES = MessageTemplate(
    "promote.serves",
    gettext_lazy("%(version)s serves all traffic of %(service)s."),
    version=text,
    service=text,
)


class PromoteStep(StepSpec):
    label = gettext_noop("Promote")
    icon = "rocket"
    about = gettext_noop("Make the candidate stable: all requests to it, then stop the old workers.")
    order = 80
    ends_plan = True

    kind: Literal["promote"] = "promote"

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.after:
            yield StepFault(_("the release ends here; remove the steps after it, or move it to the end"))
        yield from no_candidate(place)
        deploy = place.last(DeployStep)
        if deploy is not None and deploy.share_percent is not None and deploy.share_percent < 100:
            few = _(
                "all traffic would go to %(share_percent)s %% of the workers; put a deploy step with "
                "share_percent 100 before it"
            )
            yield StepFault(few % {"share_percent": deploy.share_percent})

    @classmethod
    def faults_of_plan(cls, steps: Sequence[StepSpec]) -> Iterator[str]:
        if not any(isinstance(step, cls) for step in steps):
            yield _("the plan never promotes the candidate; end it with a promote step")

    def summary(self) -> str:
        return _("promote")

    def planned(self) -> str:
        return _("all traffic")

    def consequences(self, release: Release) -> tuple[str, ...]:
        names = {"version": release.version, "before": release.from_version, "alias": release.service.alias}
        words = [
            _("All traffic goes to %(version)s.")
            if release.from_version is None
            else _("All traffic goes to %(version)s; the workers of %(before)s are drained.")
        ]
        if release.service.alias:
            words.append(_("The alias %(alias)s moves to %(version)s."))
        return tuple(sentence % names for sentence in words)

    def executor(self) -> "PromoteExecutor":
        return PromoteExecutor(self)


class PromoteExecutor(Executor[PromoteStep]):
    """All traffic to the candidate, which becomes stable; the workers of the version before bake, or end."""

    name = "promote"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "stable": row.candidate_deployment}

    def act(self, row: Release, operation: Operation) -> None:
        make_stable(row, operation)

    def observe(self, row: Release, operation: Operation) -> str:
        return fleet.deployment_status(row.candidate_deployment).state

    def settle(self, row: Release, seen: str, now: datetime) -> StepOutcome:
        if seen in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return blame(row, FAILED_AT_LAST(), now)

        plan = plan_of(row)
        bake = timedelta(seconds=plan.bake_seconds) if row.stable_deployment else timedelta(0)
        watches = bool(bake) and plan.bake_objective_percent is not None
        if row.stable_deployment and not bake and is_held(row.stable_deployment):
            bake = timedelta(seconds=1)
        began = now - self.elapsed(row, now)
        if (
            row.stable_deployment
            and not bake
            and not gateway_has_left(row.service.name, since=began, now=now)
        ):
            return self.look_again(row, progress={}, after=timedelta(seconds=0.5))

        def serve() -> None:
            finish_step(row, row.step_index, StepState.DONE, note=SHIFTED(version=row.version))
            Service.objects.filter(pk=row.service_id).update(
                stable_version=row.version, stable_deployment=row.candidate_deployment, stable_since=now
            )
            if row.stable_deployment and not bake:
                end_workers(row)
            if row.service.alias:
                aliases.set_alias(
                    actor=ACTOR,
                    model=row.service.model,
                    alias=row.service.alias,
                    version=row.version,
                    reason=_who_and_why(row),
                    release_id=row.pk,
                )
            events.publish(ServiceChanged(row.service_id))

        note = SERVES(version=row.version, service=row.service.name)
        return move(
            ReleaseState.PROMOTED,
            note=note,
            save={
                "candidate_percent": 100,
                "outcome": note.text,
                "outcome_message": note.document,
                "ended_at": now,
                "bake_until": now + bake if bake else None,
            },
            write=serve,
            after=(LOOK_AT_BUDGET if watches else bake) or None,
        )


def _who_and_why(row: Release) -> str:
    """Write what the alias history keeps: who reads it years later asks for people, not for a reconciler."""
    approved = row.approvals.filter(decision=ApprovalDecision.APPROVE).order_by("pk")
    approvers = ", ".join(dict.fromkeys(approved.values_list("by__username", flat=True)))
    approved_by = f", approved by {approvers}" if approvers else ""  # untranslated
    people = f"asked for by {row.requester}{approved_by}"  # untranslated
    told = f"Promoted on {row.service.name}, {people}: {row.reason}"  # untranslated
    # The reason alone may be as long as a reason can be.
    return told if len(told) <= MAX_REASON else told[: MAX_REASON - 1] + "…"
