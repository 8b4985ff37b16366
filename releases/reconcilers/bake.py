"""The workers of the version before stay for a while, without traffic, for a rollback within seconds."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from clusters.services import deployments
from common import events
from common.errors import SlipwayError
from common.reconcile import Operation, Step, StepOutcome, kernel, rest, wait
from gateway import selectors as gateway
from gateway.errors import GatewayError
from gateway.traffic import TargetCounts
from releases.errors import NotPossibleNow
from releases.events import ReleaseMoved
from releases.held_workers import HELD_AT_MOST, is_held
from releases.judge.burn import ErrorCount, burn_of, recent
from releases.messages import MessageTemplate, ReleaseMessage, count, number, text
from releases.models import Release, ReleaseMove, Service
from releases.plans.builtin import ROLLBACK, WARM_ROLLBACK, builtin_plan
from releases.reconcilers.base import ACTOR
from releases.selectors.plans import plan_of
from releases.services.releasable import image_before
from releases.services.release import has_warm_workers, take_back

LOOK_AT_HELD = timedelta(seconds=5)
LOOK_AT_BUDGET = timedelta(seconds=5)
BURNS = MessageTemplate(
    "bake.burns",
    _(
        "The promoted version uses the error budget %(rate)s times as fast as its objective of "
        "%(objective)s %% allows: 5xx %(errors)s / %(requests)s in five minutes."
    ),
    errors=count,
    requests=count,
    rate=lambda value: f"{value:.1f}",
    objective=number,
)
NOT_TAKEN_BACK = MessageTemplate(
    "bake.not_taken_back", _("It could not be rolled back: %(fault)s"), fault=text
)
BAKE_OVER = MessageTemplate(
    "bake.over", _("The bake is over: the workers of %(version)s stop."), version=text
)


class EndBake(Step[Release]):
    """The way back by the weight alone is over: the workers of the version before are drained and end.

    Until then a plan with an objective has the promoted version's errors watched.
    """

    name = "end bake"

    def observe(self, row: Release, operation: Operation) -> TargetCounts | None:
        if plan_of(row).bake_objective_percent is None or not _bakes(row, operation.at):
            return None
        try:
            taken_after = operation.at - timedelta(seconds=1)
            counts = gateway.counts_lately(row.service.cluster_id, row.service.name, taken_after=taken_after)
        except GatewayError:
            return None
        return counts.get(row.candidate_deployment)

    def settle(self, row: Release, seen: TargetCounts | None, now: datetime) -> StepOutcome:
        if row.bake_until is not None and now < row.bake_until:
            if plan_of(row).bake_objective_percent is None:
                return wait(row.bake_until - now)
            return self._watched(row, seen, now)
        if is_held(row.stable_deployment) and row.ended_at and now < row.ended_at + HELD_AT_MOST:
            return wait(LOOK_AT_HELD)

        def write() -> None:
            end_workers(row)
            note_of(row, BAKE_OVER(version=row.from_version))

        return rest(save={"bake_until": None}, write=write)

    def _watched(self, row: Release, seen: TargetCounts | None, now: datetime) -> StepOutcome:
        plan, kept = plan_of(row), row.baseline.get("burn", {})
        after = min(LOOK_AT_BUDGET, (row.bake_until or now) - now)
        if seen is None:
            return wait(after)
        counts = (
            [ErrorCount(*one) for one in kept.get("counts", ())] if kept.get("epoch") == seen.epoch else []
        )
        counts = recent([*counts, ErrorCount(now.timestamp(), seen.requests, seen.errors)], now.timestamp())
        is_refused = bool(kept.get("is_refused"))
        watched = {"epoch": seen.epoch, "counts": counts, "is_refused": is_refused}
        baseline = {**row.baseline, "burn": watched}
        objective = plan.bake_objective_percent or 0.0
        burn = burn_of(counts, objective_percent=objective, most_rate=plan.bake_burn_rate)
        if burn is None or is_refused:
            return wait(after, save={"baseline": baseline})
        why = BURNS(errors=burn.errors, requests=burn.requests, rate=burn.rate, objective=objective)

        def roll_back() -> None:
            try:
                with transaction.atomic():
                    _take_back(row, why)
            except SlipwayError as error:
                told = NOT_TAKEN_BACK(fault=str(error))
                note_of(row, told)
                Release.objects.filter(pk=row.pk).update(
                    baseline={**baseline, "burn": {**watched, "is_refused": True}},
                    bake_until=row.bake_until,
                )
                kernel.wake(row)
            else:
                note_of(row, why)

        return rest(save={"baseline": baseline, "bake_until": None}, write=roll_back)


def _bakes(row: Release, now: datetime) -> bool:
    return row.bake_until is not None and now < row.bake_until


def _take_back(row: Release, why: ReleaseMessage) -> None:
    """Roll back as a person would, the weight alone: its old workers are the new release's from now on."""
    service = Service.objects.get(pk=row.service_id)
    if row.from_version is None or service.stable_version_id != row.version_id:
        raise NotPossibleNow(gettext("Another version serves since."))
    warm = has_warm_workers(row)
    take_back(
        row,
        service,
        version=row.from_version,
        plan=builtin_plan(WARM_ROLLBACK if warm else ROLLBACK),
        image=image_before(row, service),
        actor=ACTOR,
        reason=why.text,
    )


def note_of(row: Release, told: ReleaseMessage) -> None:
    """Add it to the history of a release that stays in its state."""
    ReleaseMove.objects.create(
        release=row,
        before=row.state,
        after=row.state,
        actor=ACTOR.name,
        note=told.text,
        message=told.document,
    )
    events.publish(ReleaseMoved(row.pk, row.service_id))


def end_workers(row: Release) -> None:
    """End the workers of the version that the release replaced."""
    deployments.remove_deployment(
        actor=ACTOR,
        name=row.stable_deployment,
        reason=f"{row.version} took over in release {row.pk}.",  # untranslated
    )
