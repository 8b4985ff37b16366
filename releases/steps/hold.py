"""Let time pass and measure what was really routed."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from pydantic import Field

from common.reconcile import Outcome
from releases.models import Release
from releases.plans.step import DAY, WEEK, Fault, JoinedCell, Place, StepSpec, whole
from releases.plans.words import duration
from releases.reconcilers.base import SOON
from releases.reconcilers.disturbed import blame
from releases.reconcilers.measured_split import SPLIT_MAY_LAG, measured, split_fault, split_note
from releases.reconcilers.watching import Judged, Sight, WatchedExecutor
from releases.steps.deploy import Deploy

LONGEST_HOLDS_SECONDS = 30 * DAY


class Hold(StepSpec):
    label = gettext_noop("Hold")
    icon = "hourglass"
    about = gettext_noop(
        "Wait. While the candidate has traffic it is judged, and rolled back as soon as that is due."
    )
    order = 50
    start = {"seconds": 300}

    kind: Literal["hold"] = "hold"
    seconds: Annotated[int, whole(least=1, most=WEEK)] = Field(title=gettext_noop("Seconds"))

    def faults(self, place: Place) -> Iterator[Fault]:
        if place.last(Deploy) is None:
            yield Fault(_("nothing happens while it holds; put a deploy step before it"))

    @classmethod
    def faults_of_plan(cls, steps: Sequence[StepSpec]) -> Iterator[str]:
        if sum(step.seconds for step in steps if isinstance(step, cls)) > LONGEST_HOLDS_SECONDS:
            yield _("the holds together last more than 30 days")

    def summary(self) -> str:
        return duration(self.seconds)

    def spoken(self) -> str:
        return _("hold for %(duration)s") % {"duration": duration(self.seconds)}

    def planned(self) -> str:
        return duration(self.seconds)

    def joined(self, before: StepSpec) -> JoinedCell | None:
        if before.candidate_percent is None:
            return None
        words = {"percent": before.candidate_percent, "duration": duration(self.seconds)}
        return JoinedCell(_("%(percent)s %% for %(duration)s") % words, _("hold %(duration)s") % words)

    def consequences(self, release: Release) -> tuple[str, ...]:
        return (_("It stays so for %(duration)s.") % {"duration": duration(self.seconds)},)

    def executor(self) -> "HoldExecutor":
        return HoldExecutor(self)


class HoldExecutor(WatchedExecutor[Hold]):
    """Stay for a while and measure what was really routed."""

    name = "hold"

    def decide(self, row: Release, seen: Sight, view: Judged | None, now: datetime) -> Outcome:
        progress = measured(row, seen)
        over = self.elapsed(row, now) - timedelta(seconds=self.spec.seconds)
        if over < timedelta(0):
            return self.look_again(row, progress=progress, after=min(SOON, -over))
        if not progress.get("within", True):
            if over < SPLIT_MAY_LAG:
                return self.look_again(row, progress=progress)
            return blame(row, split_fault(progress), now)
        return self.go_on(row, note=split_note(progress), detail=progress)
