"""What the steps of a release share."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from common import audit, events
from common.actor import Actor
from common.reconcile import Step, StepOutcome, kernel, proceed, wait
from releases.events import ReleaseMoved
from releases.messages import ReleaseMessage
from releases.models import Release, ReleaseStep
from releases.reconcilers.pace import pace
from releases.selectors.releases import held_for
from releases.states import Halt, StepState

ACTOR = Actor.system("slipway")

SPLIT = ("start", "wished_percent", "requests", "observed_percent", "interval_percent", "within")
"""What a step's progress holds of the split between stable and candidate."""

Spec = TypeVar("Spec")


def halt(
    release: Release,
    reason: ReleaseMessage,
    *,
    kind: Halt = Halt.ROLLBACK,
    save: Mapping[str, Any] | None = None,
) -> StepOutcome:
    """Slipway itself gives the release up; the way back begins with the next step."""
    outcome = reason.text

    def write() -> None:
        audit.record(ACTOR, "release.give_up", subject=release, team_id=release.team_id, reason=outcome)
        events.publish(ReleaseMoved(release.pk, release.service_id))

    columns = {
        **(save or {}),
        "halt": kind,
        "halted_by": ACTOR.name,
        "halted_at": kernel.clock(),
        "outcome": outcome,
        "outcome_message": reason.document,
    }
    return proceed(save=columns, write=write)


class Executor(Step[Release], Generic[Spec]):
    """Takes one step of the plan; `spec` is its data."""

    tells_progress: ClassVar[bool] = True
    """Whether pages are to look again when only its progress changed."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def lane(self, row: Release) -> str:
        """The outside system that it waits for; see `Reconciler.lane_of`."""
        return ""

    def go_on(
        self,
        release: Release,
        *,
        note: ReleaseMessage | None = None,
        detail: Mapping[str, Any] | None = None,
        save: Mapping[str, Any] | None = None,
        actor: str = "",
        keeps_split: bool = True,
        also: Callable[[], None] | None = None,
    ) -> StepOutcome:
        """This step of the plan is done; the next one begins.

        What was measured of the split is carried on, for as long as the weight stays the same.
        """
        index = release.step_index
        split = (
            {key: release.progress[key] for key in SPLIT if key in release.progress} if keeps_split else {}
        )

        def write() -> None:
            finish_step(
                release,
                index,
                StepState.DONE,
                note=note or ReleaseMessage(),
                detail=detail,
                actor=actor,
                measured_split=keeps_split,
            )
            begin_step(release, index + 1)
            if also:
                also()
            events.publish(ReleaseMoved(release.pk, release.service_id))

        columns = {**(save or {}), "step_index": index + 1, "phase": "", "progress": split}
        return proceed(save=columns, write=write)

    def look_again(
        self,
        release: Release,
        *,
        after: timedelta | None = None,
        progress: Mapping[str, Any] | None = None,
        save: Mapping[str, Any] | None = None,
        write: Callable[[], None] | None = None,
    ) -> StepOutcome:
        """Stay with this step. `after` None: as soon as releases are looked at."""
        columns = dict(save or {})
        if progress is not None and dict(progress) != release.progress:
            columns["progress"] = dict(progress)

        def write_and_tell() -> None:
            if write:
                write()
            if columns and self.tells_progress:
                events.publish(ReleaseMoved(release.pk, release.service_id))

        return wait(pace.wait() if after is None else after, save=columns, write=write_and_tell)

    def elapsed(self, release: Release, now: datetime) -> timedelta:
        """Return the time since this step began, with pauses, without waits for machines and freezes."""
        return now - (began_at(release) or now) - held_for(release)


def began_at(release: Release) -> datetime | None:
    """Return since when the release is at its step; without a query where the kernel has read the row."""
    known: dict[str, Any] = vars(release)
    if "step_began" not in known:
        steps = release.steps.filter(index=release.step_index)
        known["step_began"] = steps.values_list("started_at", flat=True).first()
    began: datetime | None = known["step_began"]
    return began


def begin_step(release: Release, index: int) -> None:
    ReleaseStep.objects.filter(release=release, index=index).update(
        state=StepState.RUNNING, started_at=kernel.clock()
    )


def finish_step(
    release: Release,
    index: int,
    state: StepState,
    *,
    note: ReleaseMessage,
    detail: Mapping[str, Any] | None = None,
    actor: str = "",
    measured_split: bool = True,
) -> None:
    """`measured_split`: what was measured of the split was measured in this step, not at a weight before."""
    step = ReleaseStep.objects.get(release=release, index=index)
    step.state = state
    step.ended_at = kernel.clock()
    step.actor = actor or step.actor
    gathered = {key: value for key, value in release.progress.items() if measured_split or key not in SPLIT}
    step.detail = {**step.detail, **gathered, **(detail or {}), **({"note": note.text} if note else {})}
    step.message = note.document
    step.save(update_fields=["state", "ended_at", "actor", "detail", "message"])
