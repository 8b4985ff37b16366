"""Ask for evidence in the candidate's favour."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from common.pages.badges import badge_of
from common.reconcile import StepOutcome
from releases.judge.verdict import JudgeDecision
from releases.messages import MessageTemplate, nested
from releases.models import Release
from releases.plans.step import HOUR, WEEK, StepFault, StepPosition, StepSpec, whole
from releases.plans.words import duration
from releases.progress import StepProgress
from releases.reconcilers.base import halt
from releases.reconcilers.measured_split import measured
from releases.reconcilers.watching import EvidenceUpdate, TrafficObservation, WatchedExecutor
from releases.selectors.releases import verdict_of

FIRST_VERSION = MessageTemplate(
    "judge.first_version", gettext_lazy("Nothing to compare with: this is the service's first version.")
)
TOO_LITTLE = MessageTemplate(
    "judge.too_little",
    gettext_lazy("Too little evidence after %(seconds)s s: %(why)s"),
    seconds=str,
    why=nested,
)


class JudgeStep(StepSpec):
    label = gettext_noop("Analysis")
    icon = "scale"
    about = gettext_noop("Continue as soon as the analysis passes.")
    order = 60
    counts = True
    compares = True
    choices = {
        "ask": gettext_noop("require approval"),
        "wait": gettext_noop("keep waiting"),
        "promote": gettext_noop("continue"),
        "roll_back": gettext_noop("roll back"),
    }
    helps = {"on_insufficient": gettext_noop("What happens without enough evidence by then.")}

    kind: Literal["judge"] = "judge"
    at_most_seconds: Annotated[int, whole(least=1, most=WEEK)] = Field(
        default=HOUR,
        title=gettext_noop("At most (s)"),
        description=gettext_noop("How long to wait for enough evidence."),
    )
    on_insufficient: Literal["ask", "wait", "promote", "roll_back"] = Field(
        default="ask",
        title=gettext_noop("If inconclusive"),
        description=gettext_noop(
            "Without enough evidence by then: ask = go on to the next approval, which then must "
            "be clicked; wait = keep waiting for evidence; promote = go on without it; roll_back "
            "= roll back."
        ),
    )

    @property
    def analysis(self) -> "JudgeStep":
        return self

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if not place.percent:
            yield StepFault(_("a candidate without traffic cannot be judged; put a weight step before it"))
        elif place.percent == 100:
            yield StepFault(
                _("at 100 % stable answers nothing to compare with; judge before the weight becomes 100 %")
            )
        if self.on_insufficient == "ask" and all(step.approval is None for step in place.after):
            yield StepFault(
                _("on_insufficient is ask, but no later approval asks; add one or choose another way"),
                "on_insufficient",
            )

    def summary(self) -> str:
        within = {"duration": duration(self.at_most_seconds)}
        match self.on_insufficient:
            case "wait":
                return _("analysis until passed")
            case "ask":
                return _("analysis for at most %(duration)s; if inconclusive: require approval") % within
            case "promote":
                return _("analysis for at most %(duration)s; if inconclusive: continue") % within
            case "roll_back":
                return _("analysis for at most %(duration)s; if inconclusive: roll back") % within

    def planned(self) -> str:
        if self.on_insufficient == "wait":
            return _("until passed")
        return _("at most %(duration)s") % {"duration": duration(self.at_most_seconds)}

    def found(self, progress: StepProgress) -> str:
        # Judging goes on after the step: the strip says what the verdict says now, as the page does.
        verdict = verdict_of(progress.release)
        return str(badge_of("verdict", verdict.decision).word).lower() if verdict else ""

    def executor(self) -> "JudgeExecutor":
        return JudgeExecutor(self)


class JudgeExecutor(WatchedExecutor[JudgeStep]):
    """Ask for evidence in the candidate's favour; without enough of it, do as the plan says."""

    name = "judge"

    def decide(
        self, row: Release, seen: TrafficObservation, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        if view is None:
            return self.go_on(row, note=FIRST_VERSION())
        # The split goes on being measured: people watch it here too.
        progress = {**measured(row, seen), "verdict": view.verdict.to_dict()}
        if view.verdict.decision is JudgeDecision.PROMOTE:
            return self.go_on(row, note=view.verdict.message, detail=progress)
        waited = timedelta(seconds=view.clock.seconds)
        if waited < timedelta(seconds=self.spec.at_most_seconds):
            return self.look_again(row, progress=progress)
        match self.spec.on_insufficient:
            case "roll_back":
                reason = TOO_LITTLE(seconds=round(waited.total_seconds()), why=view.verdict.message)
                return halt(row, reason, save={"progress": progress})
            case "wait":
                return self.look_again(row, progress=progress)
            case _:
                # The approval that follows, or the plan's word, decides; the page shows what is known.
                return self.go_on(row, note=view.verdict.message, detail=progress)
