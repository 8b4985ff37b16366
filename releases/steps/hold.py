"""Let time pass and measure what was really routed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from pydantic import Field

from common.reconcile import StepOutcome
from releases.models import Release
from releases.plans.step import DAY, HOUR, WEEK, JoinedStripCell, StepFault, StepPosition, StepSpec, whole
from releases.plans.words import duration
from releases.reconcilers.clock import FEW_REQUESTS, StepClock
from releases.reconcilers.disturbed import blame
from releases.reconcilers.measured_split import SPLIT_MAY_LAG, measured, split_fault, split_note
from releases.reconcilers.pace import pace
from releases.reconcilers.watching import EvidenceUpdate, TrafficObservation, WatchedExecutor
from releases.steps.deploy import DeployStep

LONGEST_HOLDS_SECONDS = 30 * DAY


class HoldStep(StepSpec):
    label = gettext_noop("Hold")
    icon = "hourglass"
    about = gettext_noop(
        "Wait. While the candidate has traffic it is judged, and rolled back as soon as that is due."
    )
    order = 50
    counts = True
    start = {"seconds": 300}
    choices = {"pause": gettext_noop("pause"), "roll_back": gettext_noop("roll back")}
    helps = {"on_stalled": gettext_noop("A person can resume or abort a paused release.")}

    kind: Literal["hold"] = "hold"
    seconds: Annotated[int, whole(least=1, most=WEEK)] = Field(
        title=gettext_noop("Seconds"),
        description=gettext_noop(
            "Counted while requests to both versions are counted and both have a ready worker."
        ),
    )
    min_requests: Annotated[int, whole(least=0, most=1_000_000)] = Field(
        default=10,
        title=gettext_noop("At least requests"),
        description=gettext_noop(
            "To candidate and stable each, counted in that time; until then it continues. 0 = also without "
            "requests."
        ),
    )
    stalled_after_seconds: Annotated[int, whole(least=10, most=7 * DAY)] = Field(
        default=HOUR,
        title=gettext_noop("May stall for (s)"),
        description=gettext_noop("Without a ready worker, counts or enough requests."),
    )
    on_stalled: Literal["pause", "roll_back"] = Field(
        default="pause",
        title=gettext_noop("If stalled longer"),
        description=gettext_noop("pause = a person resumes or aborts it; roll_back = roll back."),
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.last(DeployStep) is None:
            yield StepFault(_("nothing happens while it holds; put a deploy step before it"))

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

    def joined(self, before: StepSpec) -> JoinedStripCell | None:
        if before.candidate_percent is None:
            return None
        words = {"percent": before.candidate_percent, "duration": duration(self.seconds)}
        return JoinedStripCell(_("%(percent)s %% for %(duration)s") % words, _("hold %(duration)s") % words)

    def consequences(self, release: Release) -> tuple[str, ...]:
        return (_("It stays so for %(duration)s.") % {"duration": duration(self.seconds)},)

    def executor(self) -> "HoldExecutor":
        return HoldExecutor(self)


class HoldExecutor(WatchedExecutor[HoldStep]):
    """Stay for a while and measure what was really routed."""

    name = "hold"

    def on_stall(self) -> tuple[timedelta, str]:
        return timedelta(seconds=self.spec.stalled_after_seconds), self.spec.on_stalled

    def decide(
        self, row: Release, seen: TrafficObservation, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        progress = measured(row, seen)
        ran = self.elapsed(row, now) if view is None else timedelta(seconds=view.clock.seconds)
        over = ran - timedelta(seconds=self.spec.seconds)
        if over < timedelta(0):
            return self.look_again(row, progress=progress, after=min(pace.wait(), -over))
        if view is not None and (few := self._lacks_requests(row, view, now)):
            return self.stall(row, few, now, progress=progress)
        if not progress.get("within", True):
            steady = view.clock.steady_for(now) if view else None
            if over < SPLIT_MAY_LAG or (steady is not None and steady < SPLIT_MAY_LAG):
                return self.look_again(row, progress=progress)
            return blame(row, split_fault(progress), now)
        return self.go_on(row, note=split_note(progress), detail=progress)

    def _lacks_requests(self, row: Release, view: EvidenceUpdate, now: datetime) -> EvidenceUpdate | None:
        """The look with its clock standing for want of requests; None: there were enough."""
        clock, least = view.clock, self.spec.min_requests
        stable = clock.stable if row.candidate_percent < 100 else least
        if clock.is_waived or min(clock.candidate, stable) >= least:
            return None
        before = StepClock.of(row)
        why = FEW_REQUESTS(candidate=clock.candidate, stable=clock.stable, least=least)
        since = before.stalled_since or now.isoformat()
        stopped = replace(clock, stalled_since=since, reason=why.document)
        if stopped.stalled_for(now) >= self.on_stall()[0]:
            stopped = replace(stopped, is_waived=True)
        baseline = {**view.save["baseline"], "clock": stopped.to_dict()}
        return replace(view, clock=stopped, save={**view.save, "baseline": baseline})
