"""Copy real requests to the candidate, and compare its answers with those that clients got from stable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from clusters import selectors as fleet
from clusters.backends.pod_settings import PodSettings
from clusters.states import DeploymentState
from common.reconcile import Effect, Operation, StepOutcome
from gateway.models import answers_key
from releases import kept_answers
from releases.comparison import LEAST_ITEMS, AnswerPair, ComparisonStep, compare, gathered, pair_of
from releases.messages import MessageTemplate, count, text
from releases.models import Release, Service
from releases.plans.step import DAY, StepFault, StepPosition, whole
from releases.plans.words import duration
from releases.progress import StepProgress
from releases.reconcilers.base import Executor, halt
from releases.reconcilers.disturbed import blame
from releases.reconcilers.routing import mirror_traffic, return_traffic
from releases.states import Halt
from releases.steps.deploy import no_candidate
from releases.steps.mirror import NO_STABLE

LOOK_SECONDS = 2.0
COMPARING, ENDING = "comparing", "ending"

FEW = MessageTemplate(
    "shadow.few",
    gettext_lazy(
        "Of %(copies)s copied requests %(pairs)s were answered by both versions and kept; %(least)s are "
        "needed."
    ),
    copies=count,
    pairs=count,
    least=count,
)
FAILED = MessageTemplate(
    "shadow.failed", gettext_lazy("The candidate's workers failed at copies: %(fault)s"), fault=text
)


class ShadowStep(ComparisonStep):
    label = gettext_noop("Shadow")
    icon = "arrows-diff"
    about = gettext_noop(
        "Send the candidate copies of this percentage of the requests, whose answers no client gets, and "
        "compare them with stable's answers to the same requests: words in common, refusals and failures, "
        "length, latency, time of workers; pairs that agree least are shown side by side."
    )
    order = 35

    kind: Literal["shadow"] = "shadow"
    percent: Annotated[int, whole(least=1, most=100)] = Field(title=gettext_noop("Percent"))
    seconds: Annotated[int, whole(least=10, most=DAY)] = Field(title=gettext_noop("Seconds"))
    most_pairs: Annotated[int, whole(least=20, most=2000)] = Field(
        default=500,
        title=gettext_noop("Most pairs"),
        description=gettext_noop("The step ends early when it has so many."),
    )
    max_cost_ratio: Annotated[float, Field(ge=0.1, le=100.0, allow_inf_nan=False)] | None = Field(
        default=None,
        title=gettext_noop("Max cost ratio"),
        description=gettext_noop(
            "Time of workers that the candidate's answers take over stable's; empty: shown, not judged."
        ),
    )
    on_too_few: Literal["ask", "fail", "continue"] = Field(
        default="fail",
        title=gettext_noop("If inconclusive"),
        description=gettext_noop(
            "With fewer than 20 pairs, or too few to judge refusals: ask = go on to the next approval; fail "
            "= end the release; continue = go on."
        ),
    )
    start = {"percent": 10, "seconds": 300}

    @property
    def needs(self) -> str:
        return "mirror" if self.percent == 100 else "mirror_percent"

    @property
    def must_pass(self) -> bool:
        return self.on_too_few != "continue"

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        if place.percent or any(step.cohort_terms is not None for step in place.before):
            yield StepFault(_("the candidate already has real traffic; compare in the shadow before that"))
        if self.on_too_few == "ask" and not any(
            step.approval is not None and step.approval.when == "always" for step in place.after
        ):
            told = _("on_too_few is ask, but no later approval always asks; add one or choose another way")
            yield StepFault(told, "on_too_few")

    def lacks(self, service: Service) -> str:
        if PodSettings.read(service.pod).server_of(service.engine) is None:
            return ""
        return _("workers that run a server of another maker keep no answers: take mirror or compare_answers")

    def summary(self) -> str:
        words = {"percent": self.percent, "duration": duration(self.seconds)}
        return _("shadow of %(percent)s %% for %(duration)s") % words

    def planned(self) -> str:
        words = {"percent": self.percent, "duration": duration(self.seconds)}
        return _("%(percent)s%% for %(duration)s") % words

    def found(self, progress: StepProgress) -> str:
        known = progress.known
        if "overlap" in known:
            return _("%(overlap)s of the words in common") % {"overlap": f"{known['overlap']:.0%}"}
        return _("%(pairs)s answers compared") % {"pairs": known.get("items", len(known.get("figures", ())))}

    def consequences(self, release: Release) -> tuple[str, ...]:
        words = {"percent": self.percent, "version": release.version}
        copied = _("%(version)s gets copies of %(percent)s%% of the requests; its answers are compared.")
        return (copied % words,)

    def executor(self) -> "ShadowExecutor":
        return ShadowExecutor(self)


@dataclass(frozen=True, slots=True)
class ShadowObservation:
    """The candidate's state, and pairs of answers that one look found."""

    state: str
    why: str
    pairs: Sequence[AnswerPair] = ()
    look: kept_answers.KeptLook = field(default_factory=kept_answers.KeptLook)


class ShadowExecutor(Executor[ShadowStep]):
    """Set the copies, gather pairs of answers until the time is over, take the copies back and judge once."""

    name = "shadow"
    effect = Effect.ABSOLUTE

    def lane(self, row: Release) -> str:
        return row.service.cluster.own_lane

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "mirror_percent": self.spec.percent, "phase": row.phase}

    def act(self, row: Release, operation: Operation) -> None:
        if not row.stable_deployment:
            return
        if not row.phase:
            mirror_traffic(row, operation, percent=self.spec.percent, keeps_answers=True)
        elif row.phase == ENDING:
            return_traffic(row, operation)

    def observe(self, row: Release, operation: Operation) -> ShadowObservation:
        state, why = fleet.deployment_state(row.candidate_deployment)
        if row.phase != COMPARING:
            return ShadowObservation(state, why)
        candidate, stable = (
            fleet.endpoints(name).addresses for name in (row.candidate_deployment, row.stable_deployment)
        )
        look = kept_answers.source.look(
            answers_key(row.service.name, row.candidate_deployment),
            candidate,
            stable,
            marks=row.progress.get("marks", {}),
            used=row.progress.get("used", ()),
        )
        pairs = tuple(pair_of(self.spec, one.shown, one.candidate, one.stable) for one in look.pairs)
        return ShadowObservation(state, why, pairs, look)

    def settle(self, row: Release, seen: ShadowObservation, now: datetime) -> StepOutcome:
        if not row.stable_deployment:
            return self.go_on(row, note=NO_STABLE())
        if seen.state in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return blame(row, FAILED(fault=seen.why or seen.state), now)
        if not row.phase:
            return self.look_again(row, save={"phase": COMPARING})
        if row.phase == ENDING:
            return self._judged(row)
        before = row.progress
        progress = {
            **before,
            **gathered(before, seen.pairs),
            "copies": before.get("copies", 0) + len(seen.pairs) + seen.look.unpaired,
            "used": [*before.get("used", ()), *seen.look.used],
            "marks": {**before.get("marks", {}), **seen.look.marks},
        }
        left = timedelta(seconds=self.spec.seconds) - self.elapsed(row, now)
        if left <= timedelta(0) or len(progress["figures"]) >= self.spec.most_pairs:
            return self.look_again(row, save={"phase": ENDING}, progress=progress, after=timedelta(0))
        after = min(timedelta(seconds=LOOK_SECONDS), left)
        return self.look_again(row, progress=progress, after=after)

    def _judged(self, row: Release) -> StepOutcome:
        progress = {**row.progress, "figures": [], "used": [], "marks": {}}
        figures = row.progress.get("figures", [])
        if len(figures) < LEAST_ITEMS:
            progress["items"] = len(figures)
            told = FEW(copies=progress.get("copies", 0), pairs=len(figures), least=LEAST_ITEMS)
            if self.spec.on_too_few == "fail":
                return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
            return self.go_on(row, note=told, detail=progress)
        found, told, fault = compare(self.spec, figures, max_cost_ratio=self.spec.max_cost_ratio)
        progress |= found
        if fault is None:
            return self.go_on(row, note=told, detail=progress)
        if "needed" in found and self.spec.on_too_few != "fail":
            return self.go_on(row, note=fault + told, detail=progress)
        return halt(row, fault + told, kind=Halt.FAIL, save={"progress": progress})
