"""The workers of the version before stay for a while, without traffic, for a rollback within seconds."""

from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _

from clusters.services import deployments
from common import events
from common.reconcile import Step, StepOutcome, rest, wait
from releases.events import ReleaseMoved
from releases.held_workers import HELD_AT_MOST, is_held
from releases.messages import MessageTemplate, text
from releases.models import Release, ReleaseMove
from releases.reconcilers.base import ACTOR

LOOK_AT_HELD = timedelta(seconds=5)
BAKE_OVER = MessageTemplate(
    "bake.over", _("The bake is over: the workers of %(version)s stop."), version=text
)


class EndBake(Step[Release]):
    """The way back by the weight alone is over: the workers of the version before are drained and end."""

    name = "end bake"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        if row.bake_until is not None and now < row.bake_until:
            return wait(row.bake_until - now)
        if is_held(row.stable_deployment) and row.ended_at and now < row.ended_at + HELD_AT_MOST:
            return wait(LOOK_AT_HELD)

        def write() -> None:
            end_workers(row)
            over = BAKE_OVER(version=row.from_version)
            ReleaseMove.objects.create(
                release=row,
                before=row.state,
                after=row.state,
                actor=ACTOR.name,
                note=over.text,
                message=over.document,
            )
            events.publish(ReleaseMoved(row.pk, row.service_id))

        return rest(save={"bake_until": None}, write=write)


def end_workers(row: Release) -> None:
    """End the workers of the version that the release replaced."""
    deployments.remove_deployment(
        actor=ACTOR,
        name=row.stable_deployment,
        reason=f"{row.version} took over in release {row.pk}.",  # untranslated
    )
