"""Do candidate and stable answer the same requests alike?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from clusters import selectors as fleet
from clusters.states import DeploymentState
from common.reconcile import Operation, StepOutcome
from model_store.errors import BlobMissing
from optimization.inputs import ItemFileName, NoSuchItemFile, item_file
from releases import answers
from releases.answers import BadLabelledSet, LabelledItem, WorkerAnswer
from releases.comparison import (
    LEAST_ITEMS,
    AnswerPair,
    ComparedAnswer,
    ComparisonStep,
    compare,
    gathered,
    pair_of,
)
from releases.messages import MessageTemplate, count, text
from releases.models import Release, Service
from releases.plans.step import DAY, HOUR, StepFault, StepPosition, whole
from releases.progress import StepProgress
from releases.reconcilers.base import Executor, halt
from releases.reconcilers.disturbed import blame
from releases.states import Halt
from releases.steps.deploy import has_traffic, no_candidate
from releases.steps.evaluate import models_of

ITEM_SECONDS = 30.0

FEW = MessageTemplate(
    "compare_answers.few",
    gettext_lazy("Both versions answered %(items)s of %(all)s requests; %(least)s are needed."),
    items=count,
    all=count,
    least=count,
)
NO_SET = MessageTemplate(
    "compare_answers.no_set", gettext_lazy("The set cannot be read: %(fault)s"), fault=text
)
DIED = MessageTemplate(
    "compare_answers.died",
    gettext_lazy("The candidate's workers died while they were asked: %(fault)s"),
    fault=text,
)
NOT_IN_TIME = MessageTemplate(
    "compare_answers.not_in_time",
    gettext_lazy("%(asked)s of %(all)s requests were asked within %(seconds)s s."),
    asked=count,
    all=count,
    seconds=count,
)


class CompareAnswersStep(ComparisonStep):
    label = gettext_noop("Compare answers")
    icon = "arrows-diff"
    about = gettext_noop(
        "Ask candidate and stable the same requests and compare the answers: words in common, refusals, "
        "length, latency; pairs that agree least are shown side by side."
    )
    order = 34
    start = {"requests": "tests:v1/requests.jsonl"}

    kind: Literal["compare_answers"] = "compare_answers"
    requests: ItemFileName = Field(
        title=gettext_noop("Requests"),
        description=gettext_noop(
            "A file of a version of the team, model:version/path: JSON lines with prompt, or path and "
            "body of a route."
        ),
    )
    most_items: Annotated[int, whole(least=20, most=2000)] = Field(
        default=500,
        title=gettext_noop("Most items"),
        description=gettext_noop("Only so many of the set's first items are asked."),
    )
    max_tokens: Annotated[int, whole(least=1, most=512)] = Field(default=64, title=gettext_noop("Max tokens"))
    timeout_seconds: Annotated[int, whole(least=10, most=DAY)] = Field(
        default=HOUR, title=gettext_noop("Timeout (s)")
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        yield from has_traffic(place)

    def lacks(self, service: Service) -> str:
        try:
            found = len(self.items_for(service.team))
        except (NoSuchItemFile, BadLabelledSet, BlobMissing) as error:
            return str(error)
        if found >= LEAST_ITEMS:
            return ""
        words = {"items": self.requests, "found": found, "least": LEAST_ITEMS}
        return _("%(items)s has %(found)s items; %(least)s are needed to judge") % words

    def items_for(self, team: Any) -> Sequence[LabelledItem]:
        """Raises NoSuchItemFile, BadLabelledSet, BlobMissing."""
        file = item_file(team, self.requests)[1]["sha256"]
        return answers.items_of(file, is_labelled=False)[: self.most_items]

    def summary(self) -> str:
        return _("compare answers to %(items)s") % {"items": self.requests}

    def planned(self) -> str:
        return self.requests

    def found(self, progress: StepProgress) -> str:
        known = progress.known
        if "overlap" in known:
            return _("%(overlap)s of the words in common") % {"overlap": f"{known['overlap']:.0%}"}
        if "all" not in known:
            return ""
        return _("%(asked)s of %(all)s items") % {"asked": known.get("asked", 0), "all": known["all"]}

    def executor(self) -> "CompareAnswersExecutor":
        return CompareAnswersExecutor(self)


@dataclass(frozen=True, slots=True)
class ComparisonObservation:
    """Answers to the requests of one look."""

    state: str
    why: str
    all: int
    asked: int = 0
    pairs: tuple[AnswerPair, ...] = ()
    fault: str = ""


def _said(answer: WorkerAnswer) -> ComparedAnswer:
    return ComparedAnswer(answer.text, answer.seconds)


class CompareAnswersExecutor(Executor[CompareAnswersStep]):
    """Ask a few requests at each look, both sides the same ones; judge once, when all have been asked."""

    name = "compare answers"

    def lane(self, row: Release) -> str:
        return row.service.cluster.own_lane

    def observe(self, row: Release, operation: Operation) -> ComparisonObservation:
        state, why = fleet.deployment_state(row.candidate_deployment)
        try:
            items = self.spec.items_for(row.team)
        except (NoSuchItemFile, BadLabelledSet, BlobMissing) as error:
            return ComparisonObservation(state, why, 0, fault=str(error))
        done = row.progress.get("asked", 0)
        batch = items[done : done + answers.AT_ONCE]
        sides = (row.candidate_deployment, row.stable_deployment)
        places = [fleet.endpoints(name).addresses for name in sides]
        if not batch or not all(places):
            return ComparisonObservation(state, why, len(items))
        asked = [
            (f"http://{address}:{port}", model, item)
            for number, item in enumerate(batch, done)
            for some, model in zip(places, models_of(row), strict=True)
            for address, port in [some[number % len(some)]]
        ]
        got = answers.source.ask_all(
            asked, max_tokens=self.spec.max_tokens, timeout_seconds=ITEM_SECONDS / answers.AT_ONCE
        )
        pairs = tuple(
            pair_of(self.spec, item.shown, _said(candidate), _said(stable))
            for item, candidate, stable in zip(batch, got[::2], got[1::2], strict=True)
            if not (candidate.fault or stable.fault)
        )
        return ComparisonObservation(state, why, len(items), len(batch), pairs)

    def settle(self, row: Release, seen: ComparisonObservation, now: datetime) -> StepOutcome:
        if seen.fault:
            return halt(row, NO_SET(fault=seen.fault), kind=Halt.FAIL)
        if seen.state in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return blame(row, DIED(fault=seen.why or seen.state), now, kind=Halt.FAIL)
        before = row.progress
        progress: dict[str, Any] = {
            "asked": before.get("asked", 0) + seen.asked,
            "all": seen.all,
            **gathered(before, seen.pairs),
        }
        if progress["asked"] >= seen.all:
            return self._judged(row, progress)
        if self.elapsed(row, now) > timedelta(seconds=self.spec.timeout_seconds):
            told = NOT_IN_TIME(asked=progress["asked"], all=seen.all, seconds=self.spec.timeout_seconds)
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        after = timedelta(0) if seen.asked else timedelta(seconds=1)
        return self.look_again(row, progress=progress, after=after)

    def _judged(self, row: Release, progress: dict[str, Any]) -> StepOutcome:
        figures, progress["figures"] = progress["figures"], []
        if len(figures) < LEAST_ITEMS:
            told = FEW(items=len(figures), all=progress["all"], least=LEAST_ITEMS)
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        found, told, fault = compare(self.spec, figures)
        progress |= found
        if fault is None:
            return self.go_on(row, note=told, detail=progress)
        return halt(row, fault + told, kind=Halt.FAIL, save={"progress": progress})
