"""Send the candidate copies of real requests, whose answers nobody sees."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from clusters import selectors as fleet
from clusters.states import DeploymentState
from common.reconcile import Effect, Operation, StepOutcome
from releases.messages import MessageTemplate, number, text
from releases.models import Release
from releases.plans.step import DAY, StepFault, StepPosition, StepSpec, whole
from releases.plans.words import duration
from releases.progress import StepProgress
from releases.reconcilers.base import Executor
from releases.reconcilers.disturbed import blame
from releases.reconcilers.pace import pace
from releases.reconcilers.routing import mirror_traffic, return_traffic
from releases.steps.deploy import no_candidate

MIRRORED = MessageTemplate(
    "mirror.done",
    gettext_lazy(
        "The candidate got copies of %(percent)s %% of the requests for %(seconds)s s; its answers to them "
        "were not judged."
    ),
    percent=number,
    seconds=str,
)
NO_STABLE = MessageTemplate(
    "mirror.no_stable", gettext_lazy("Nothing serves yet whose requests could be copied.")
)
FAILED = MessageTemplate(
    "mirror.failed", gettext_lazy("The candidate's workers failed at copies: %(fault)s"), fault=text
)
MIRRORING, ENDING = "mirroring", "ending"


class MirrorStep(StepSpec):
    label = gettext_noop("Mirror")
    icon = "copy"
    about = gettext_noop(
        "Send the candidate copies of this percentage of the requests; clients get stable's answers alone, "
        "and the candidate's are not judged."
    )
    order = 35
    counts = True
    compares = True
    start = {"percent": 10, "seconds": 300}

    kind: Literal["mirror"] = "mirror"
    percent: Annotated[int, whole(least=1, most=100)] = Field(title=gettext_noop("Percent"))
    seconds: Annotated[int, whole(least=5, most=7 * DAY)] = Field(title=gettext_noop("Seconds"))

    @property
    def needs(self) -> str:
        return "mirror" if self.percent == 100 else "mirror_percent"

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        if any(step.cohort_terms is not None for step in place.before):
            yield StepFault(_("the candidate already has a cohort; put the mirror before it"))
        if place.percent:
            yield StepFault(
                _("the candidate already has real traffic; put the mirror before the first weight")
            )

    def summary(self) -> str:
        words = {"percent": self.percent, "duration": duration(self.seconds)}
        return _("mirror %(percent)s %% for %(duration)s") % words

    def planned(self) -> str:
        words = {"percent": self.percent, "duration": duration(self.seconds)}
        return _("%(percent)s%% for %(duration)s") % words

    def found(self, progress: StepProgress) -> str:
        return _("%(percent)s%% copied, not judged") % {"percent": self.percent}

    def consequences(self, release: Release) -> tuple[str, ...]:
        words = {"percent": self.percent, "version": release.version}
        copied = _("%(version)s gets copies of %(percent)s%% of the requests; its answers are not judged.")
        return (copied % words,)

    def executor(self) -> "MirrorExecutor":
        return MirrorExecutor(self)


class MirrorExecutor(Executor[MirrorStep]):
    """Set the copies, wait, take them back: three turns, each of which may be repeated."""

    name = "mirror"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "mirror_percent": self.spec.percent, "phase": row.phase}

    def act(self, row: Release, operation: Operation) -> None:
        if not row.stable_deployment:
            return
        if not row.phase:
            mirror_traffic(row, operation, percent=self.spec.percent)
        elif row.phase == ENDING:
            return_traffic(row, operation)

    def observe(self, row: Release, operation: Operation) -> tuple[str, str]:
        return fleet.deployment_state(row.candidate_deployment)

    def settle(self, row: Release, seen: tuple[str, str], now: datetime) -> StepOutcome:
        if not row.stable_deployment:
            return self.go_on(row, note=NO_STABLE())
        state, why = seen
        if state in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return blame(row, FAILED(fault=why or state), now)
        if not row.phase:
            return self.look_again(row, save={"phase": MIRRORING})
        if row.phase == ENDING:
            took = round(self.elapsed(row, now).total_seconds())
            return self.go_on(row, note=MIRRORED(percent=self.spec.percent, seconds=took))
        left = timedelta(seconds=self.spec.seconds) - self.elapsed(row, now)
        if left > timedelta(0):
            return self.look_again(row, after=min(pace.wait(), left))
        return self.look_again(row, save={"phase": ENDING}, after=timedelta(0))
