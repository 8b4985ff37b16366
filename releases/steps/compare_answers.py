"""Do candidate and stable answer the same requests alike?"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from statistics import fmean, median
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import AfterValidator, Field, StringConstraints

from clusters import selectors as fleet
from clusters.states import DeploymentState
from common.reconcile import Operation, StepOutcome
from model_store.errors import BlobMissing
from optimization.inputs import NoSuchItemFile, item_file
from optimization.noninferiority import estimate
from releases import answers
from releases.answers import BadLabelledSet, LabelledItem, WorkerAnswer
from releases.messages import MessageTemplate, count, text
from releases.models import Release, Service
from releases.plans.step import DAY, HOUR, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import Executor, halt
from releases.reconcilers.disturbed import blame
from releases.states import Halt
from releases.steps.deploy import has_traffic, no_candidate
from releases.steps.evaluate import models_of

LEAST_ITEMS = 20
ITEM_SECONDS = 30.0
SAMPLES_KEPT = 10
"""Pairs that agree least, kept to be looked at."""
HIDDEN = "███"


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return value


Pattern = Annotated[str, StringConstraints(max_length=500), AfterValidator(_pattern)]

_FIGURES: Mapping[str, Any] = {
    "items": count,
    "same": lambda value: f"{value:.0%}",
    "overlap": lambda value: f"{value:.0%}",
    "refused": lambda value: f"{value:.1%}",
    "refused_by_stable": lambda value: f"{value:.1%}",
    "length": lambda value: f"{value:.2f}",
    "latency": lambda value: f"{value:.2f}",
}
FIGURES = MessageTemplate(
    "compare_answers.figures",
    gettext_lazy(
        "%(items)s requests: %(same)s answered word for word alike, %(overlap)s of the words in common, "
        "refused %(refused)s (stable %(refused_by_stable)s), length %(length)s× and latency %(latency)s× "
        "stable's."
    ),
    **_FIGURES,
)
UNLIKE = MessageTemplate(
    "compare_answers.unlike",
    gettext_lazy("Too few words in common: %(value)s is below %(bound)s."),
    value=_FIGURES["overlap"],
    bound=_FIGURES["overlap"],
)
REFUSES = MessageTemplate(
    "compare_answers.refuses",
    gettext_lazy("It is not shown that it refuses at most %(bound)s more: the difference may be %(value)s."),
    value=_FIGURES["refused"],
    bound=_FIGURES["refused"],
)
SLOW = MessageTemplate(
    "compare_answers.slow",
    gettext_lazy("It takes %(value)s× stable's time, more than %(bound)s×."),
    value=_FIGURES["latency"],
    bound=_FIGURES["latency"],
)
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


class CompareAnswersStep(StepSpec):
    label = gettext_noop("Compare answers")
    icon = "arrows-diff"
    about = gettext_noop(
        "Ask candidate and stable the same requests and compare the answers: words in common, refusals, "
        "length, latency; pairs that agree least are shown side by side."
    )
    order = 34
    checks = True
    compares = True
    start = {"requests": "tests:v1/requests.jsonl"}

    kind: Literal["compare_answers"] = "compare_answers"
    requests: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=150, pattern=r"^[^:/\s]+:[^:/\s]+/\S+$")
    ] = Field(
        title=gettext_noop("Requests"),
        description=gettext_noop(
            "A file of a version of the team, model:version/path: JSON lines with prompt, or path and "
            "body of a route."
        ),
    )
    min_overlap_percent: Annotated[int, whole(least=0, most=100)] = Field(
        default=0,
        title=gettext_noop("Min words in common (%)"),
        description=gettext_noop("In the mean over all answers; 0: shown, not judged."),
    )
    max_more_refusals_percent: Annotated[float, Field(gt=0.0, le=100.0, allow_inf_nan=False)] = Field(
        default=5.0,
        title=gettext_noop("Max more refusals (points)"),
        description=gettext_noop(
            "It must be shown that the candidate refuses at most so many more (paired, 5 %)."
        ),
    )
    max_latency_ratio: Annotated[float, Field(ge=1.0, le=100.0, allow_inf_nan=False)] = Field(
        default=2.0,
        title=gettext_noop("Max latency ratio"),
        description=gettext_noop("Median of the candidate's times over stable's."),
    )
    refusals: Pattern = Field(
        default=r"\bI (cannot|can't|am unable to)\b|\bAs an AI\b",
        title=gettext_noop("Refusals"),
        description=gettext_noop("Regular expression; an answer that it is found in is a refusal."),
    )
    redact: Pattern = Field(
        default=r"[\w.+-]+@[\w-]+\.[\w.]+|\d{6,}",
        title=gettext_noop("Redact"),
        description=gettext_noop("Regular expression of what is hidden in the pairs that are kept."),
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
class AnswerPair:
    """Both answers to one request in figures, and redacted."""

    overlap: float
    same: bool
    refused: bool
    refused_by_stable: bool
    length: float
    """Characters of the candidate's over stable's."""
    latency: float
    sample: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ComparisonObservation:
    """Answers to the requests of one look."""

    state: str
    why: str
    all: int
    asked: int = 0
    pairs: tuple[AnswerPair, ...] = ()
    fault: str = ""


def overlap_of(one: str, other: str) -> float:
    """Return the words in common: twice their number over those of both, 1 for two empty answers."""
    ours, theirs = (Counter(re.findall(r"\w+", words.casefold())) for words in (one, other))
    total = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / total if total else 1.0


def pair_of(
    spec: CompareAnswersStep, item: LabelledItem, candidate: WorkerAnswer, stable: WorkerAnswer
) -> AnswerPair:
    refused, refused_by_stable = (
        bool(spec.refusals and re.search(spec.refusals, answer.text, re.IGNORECASE))
        for answer in (candidate, stable)
    )
    return AnswerPair(
        overlap_of(candidate.text, stable.text),
        candidate.text.strip() == stable.text.strip(),
        refused,
        refused_by_stable,
        max(len(candidate.text), 1) / max(len(stable.text), 1),
        candidate.seconds / stable.seconds if stable.seconds else 1.0,
        {
            "item": redacted(spec, item.shown),
            "candidate": redacted(spec, candidate.text),
            "stable": redacted(spec, stable.text),
        },
    )


def redacted(spec: CompareAnswersStep, words: str) -> str:
    """Return what may be kept of a text. Hidden first, then cut: half a number is a number."""
    shown = re.sub(spec.redact, HIDDEN, words) if spec.redact else words
    return shown[: answers.SHOWN]


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
            pair_of(self.spec, item, candidate, stable)
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
        figures = [*before.get("figures", []), *([*asdict(one).values()][:-1] for one in seen.pairs)]
        samples = [
            *before.get("samples", []),
            *({**one.sample, "overlap": round(one.overlap, 3)} for one in seen.pairs),
        ]
        progress: dict[str, Any] = {
            "asked": before.get("asked", 0) + seen.asked,
            "all": seen.all,
            "figures": figures,
            "samples": sorted(samples, key=lambda one: one["overlap"])[:SAMPLES_KEPT],
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
        overlaps, same, refused, refused_by_stable, lengths, latencies = zip(*figures, strict=True)
        found = {
            "items": len(figures),
            "same": fmean(same),
            "overlap": fmean(overlaps),
            "refused": fmean(refused),
            "refused_by_stable": fmean(refused_by_stable),
            "length": median(lengths),
            "latency": median(latencies),
        }
        progress |= found
        told = FIGURES(**found)
        margin = self.spec.max_more_refusals_percent / 100
        differences = [
            float(theirs) - float(ours) for ours, theirs in zip(refused, refused_by_stable, strict=True)
        ]
        more = estimate(differences, margin=margin, is_binary=True)
        least = self.spec.min_overlap_percent / 100
        if found["overlap"] < least:
            fault = UNLIKE(value=found["overlap"], bound=least)
        elif more.verdict != "passed":
            fault = REFUSES(value=-more.low, bound=margin)
        elif found["latency"] > self.spec.max_latency_ratio:
            fault = SLOW(value=found["latency"], bound=self.spec.max_latency_ratio)
        else:
            return self.go_on(row, note=told, detail=progress)
        return halt(row, fault + told, kind=Halt.FAIL, save={"progress": progress})
