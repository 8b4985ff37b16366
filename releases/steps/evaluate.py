"""Do candidate and stable answer a labelled set equally well?"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from clusters import selectors as fleet
from clusters.scrape_targets import server_of
from clusters.states import DeploymentState
from common.errors import SlipwayError
from common.reconcile import Operation, StepOutcome
from model_store.errors import BlobMissing
from models_registry.services.evaluations import FigureInput, evaluate_version
from optimization.inputs import ItemFileName, NoSuchItemFile, item_file
from optimization.noninferiority import PairedEstimate, estimate
from releases import answers
from releases.answers import BadLabelledSet, LabelledItem, WorkerAnswer
from releases.messages import MessageTemplate, count, text
from releases.models import Release, Service
from releases.plans.step import DAY, HOUR, StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.base import ACTOR, Executor, halt
from releases.reconcilers.disturbed import blame
from releases.states import Halt
from releases.steps.deploy import has_traffic, no_candidate

LEAST_ITEMS = 20
ITEM_SECONDS = 10.0
WORST_KEPT = 10
"""Items that stable answers and the candidate does not, kept to be looked at."""


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _points(value: float) -> str:
    return f"{value * 100:+.1f}"


_FIGURES: Mapping[str, Any] = {
    "items": count,
    "candidate": _percent,
    "stable": _percent,
    "low": _points,
    "high": _points,
    "margin": _points,
}
PASSED = MessageTemplate(
    "evaluate.passed",
    gettext_lazy(
        "%(items)s items: %(candidate)s right, stable %(stable)s. The difference is above %(margin)s points: "
        "%(low)s to %(high)s."
    ),
    **_FIGURES,
)
WORSE = MessageTemplate(
    "evaluate.worse",
    gettext_lazy(
        "%(items)s items: %(candidate)s right, stable %(stable)s. The candidate is worse by more than the "
        "margin of %(margin)s points: %(low)s to %(high)s."
    ),
    **_FIGURES,
)
TOO_FEW = MessageTemplate(
    "evaluate.too_few",
    gettext_lazy(
        "%(items)s items are too few to tell: %(candidate)s right, stable %(stable)s, %(low)s to %(high)s "
        "points against a margin of %(margin)s. About %(needed)s items would decide."
    ),
    **_FIGURES,
    needed=lambda value: _("more than a million") if value is None else str(count(value)),
)
FEW_ANSWERED = MessageTemplate(
    "evaluate.few_answered",
    gettext_lazy("Stable answered %(items)s of %(all)s items; %(least)s are needed to judge."),
    items=count,
    all=count,
    least=count,
)
NO_SET = MessageTemplate("evaluate.no_set", gettext_lazy("The set cannot be read: %(fault)s"), fault=text)
DIED = MessageTemplate(
    "evaluate.died", gettext_lazy("The candidate's workers died while they were asked: %(fault)s"), fault=text
)
NOT_IN_TIME = MessageTemplate(
    "evaluate.not_in_time",
    gettext_lazy("%(asked)s of %(all)s items were asked within %(seconds)s s."),
    asked=count,
    all=count,
    seconds=count,
)


class EvaluateStep(StepSpec):
    label = gettext_noop("Evaluation")
    icon = "list-check"
    about = gettext_noop(
        "Ask candidate and stable the items of a labelled set of the registry; continue when the candidate "
        "is shown to be worse by less than the margin (paired, one-sided, 5 %)."
    )
    order = 32
    checks = True
    compares = True
    start = {"items": "tests:v1/items.jsonl"}
    choices = {
        "ask": gettext_noop("require approval"),
        "fail": gettext_noop("fail"),
        "continue": gettext_noop("continue"),
        "exact": gettext_noop("is the right one"),
        "contains": gettext_noop("contains the right one"),
    }

    kind: Literal["evaluate"] = "evaluate"
    items: ItemFileName = Field(
        title=gettext_noop("Labelled set"),
        description=gettext_noop(
            "A file of a version of the team, model:version/path: JSON lines with prompt (or path and body "
            "of a route) and answer."
        ),
    )
    margin_percent: Annotated[float, Field(gt=0.0, le=50.0, allow_inf_nan=False)] = Field(
        default=2.0,
        title=gettext_noop("Margin (points)"),
        description=gettext_noop("Largest loss of right answers, in percentage points, that is accepted."),
    )
    match: Literal["exact", "contains"] = Field(
        default="contains",
        title=gettext_noop("Match"),
        description=gettext_noop(
            "An answer is right when it is, or contains, the expected words, whatever case and punctuation."
        ),
    )
    most_items: Annotated[int, whole(least=20, most=5000)] = Field(
        default=1000,
        title=gettext_noop("Most items"),
        description=gettext_noop("Only so many of the set's first items are asked."),
    )
    max_tokens: Annotated[int, whole(least=1, most=512)] = Field(default=32, title=gettext_noop("Max tokens"))
    timeout_seconds: Annotated[int, whole(least=10, most=DAY)] = Field(
        default=HOUR, title=gettext_noop("Timeout (s)")
    )
    on_too_few: Literal["ask", "fail", "continue"] = Field(
        default="fail",
        title=gettext_noop("If inconclusive"),
        description=gettext_noop(
            "With too few items to tell: ask = go on to the next approval; fail = end the release; "
            "continue = go on."
        ),
    )

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        yield from has_traffic(place)
        if self.on_too_few == "ask" and not any(
            step.approval is not None and step.approval.when == "always" for step in place.after
        ):
            yield StepFault(
                _("on_too_few is ask, but no later approval always asks; add one or choose another way"),
                "on_too_few",
            )

    def lacks(self, service: Service) -> str:
        try:
            found = len(answers.items_of(item_file(service.team, self.items)[1]["sha256"]))
        except (NoSuchItemFile, BadLabelledSet, BlobMissing) as error:
            return str(error)
        if found >= LEAST_ITEMS:
            return ""
        return _("%(items)s has %(found)s items; %(least)s are needed to judge") % {
            "items": self.items, "found": found, "least": LEAST_ITEMS
        }  # fmt: skip

    @property
    def must_pass(self) -> bool:
        return self.on_too_few != "continue"

    def summary(self) -> str:
        words = {"items": self.items, "margin": f"{self.margin_percent:g}"}
        return _("evaluate on %(items)s, at most %(margin)s points worse") % words

    def planned(self) -> str:
        return self.items

    def found(self, progress: StepProgress) -> str:
        known = progress.known
        if "candidate" in known:
            words = {"candidate": _percent(known["candidate"]), "stable": _percent(known["stable"])}
            return _("%(candidate)s right, stable %(stable)s") % words
        if "all" not in known:
            return ""
        return _("%(asked)s of %(all)s items") % {"asked": len(known.get("scores", "")), "all": known["all"]}

    def executor(self) -> "EvaluateExecutor":
        return EvaluateExecutor(self)


@dataclass(frozen=True, slots=True)
class EvaluationObservation:
    """Answers to the items of one look."""

    state: str
    why: str
    all: int
    scores: str
    """A letter per item: `b`oth right, `c`andidate or `s`table alone, `n`either; `-`: no answer of stable."""
    lost: tuple[Mapping[str, str], ...]
    fault: str = ""


class EvaluateExecutor(Executor[EvaluateStep]):
    """Ask a few items at each look, both sides the same ones; judge once, when all have been asked."""

    name = "evaluate"

    def lane(self, row: Release) -> str:
        return row.service.cluster.own_lane

    def observe(self, row: Release, operation: Operation) -> EvaluationObservation:
        state, why = fleet.deployment_state(row.candidate_deployment)
        try:
            file = item_file(row.team, self.spec.items)[1]["sha256"]
            items = answers.items_of(file)[: self.spec.most_items]
        except (NoSuchItemFile, BadLabelledSet, BlobMissing) as error:
            return EvaluationObservation(state, why, 0, "", (), str(error))
        done = len(row.progress.get("scores", ""))
        batch = items[done : done + answers.AT_ONCE]
        sides = (row.candidate_deployment, row.stable_deployment)
        places = [fleet.endpoints(name).addresses for name in sides]
        if not batch or not all(places):
            return EvaluationObservation(state, why, len(items), "", ())
        asked = [
            (f"http://{address}:{port}", model, item)
            for number, item in enumerate(batch, done)
            for some, model in zip(places, models_of(row), strict=True)
            for address, port in [some[number % len(some)]]
        ]
        got = answers.source.ask_all(asked, max_tokens=self.spec.max_tokens, timeout_seconds=ITEM_SECONDS)
        pairs = list(zip(batch, got[::2], got[1::2], strict=True))
        lost = tuple(_lost(*one) for one in pairs if self._letter(*one) == "s")
        return EvaluationObservation(
            state, why, len(items), "".join(self._letter(*one) for one in pairs), lost
        )

    def settle(self, row: Release, seen: EvaluationObservation, now: datetime) -> StepOutcome:
        if seen.fault:
            return halt(row, NO_SET(fault=seen.fault), kind=Halt.FAIL)
        if seen.state in (DeploymentState.FAILING, DeploymentState.REMOVED):
            return blame(row, DIED(fault=seen.why or seen.state), now, kind=Halt.FAIL)
        scores = row.progress.get("scores", "") + seen.scores
        lost = [*row.progress.get("lost", []), *seen.lost][:WORST_KEPT]
        progress: dict[str, Any] = {"scores": scores, "lost": lost, "all": seen.all}
        if len(scores) >= seen.all:
            return self._judged(row, progress)
        if self.elapsed(row, now) > timedelta(seconds=self.spec.timeout_seconds):
            told = NOT_IN_TIME(asked=len(scores), all=seen.all, seconds=self.spec.timeout_seconds)
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        after = timedelta(0) if seen.scores else timedelta(seconds=1)
        return self.look_again(row, progress=progress, after=after)

    def _letter(self, item: LabelledItem, candidate: WorkerAnswer, stable: WorkerAnswer) -> str:
        if stable.fault:
            return "-"
        match = self.spec.match
        return "ncsb"[answers.score(item, candidate, match) + 2 * answers.score(item, stable, match)]

    def _judged(self, row: Release, progress: dict[str, Any]) -> StepOutcome:
        counted = [one for one in progress["scores"] if one != "-"]
        if len(counted) < LEAST_ITEMS:
            told = FEW_ANSWERED(items=len(counted), all=progress["all"], least=LEAST_ITEMS)
            return self._too_few(row, told, progress)
        found = estimate(
            [{"c": 1.0, "s": -1.0}.get(one, 0.0) for one in counted],
            margin=self.spec.margin_percent / 100,
            is_binary=True,
        )
        right = {side: sum(one in side for one in counted) / len(counted) for side in ("bc", "bs")}
        progress |= {"candidate": right["bc"], "stable": right["bs"], "estimate": asdict(found)}
        figures = _figures(found, right["bc"], right["bs"])
        match found.verdict:
            case "passed":
                return self.go_on(
                    row,
                    note=PASSED(**figures),
                    detail=progress,
                    also=lambda: _keep_figure(row, self.spec.items, right["bc"]),
                )
            case "failed":
                return halt(row, WORSE(**figures), kind=Halt.FAIL, save={"progress": progress})
            case _:
                return self._too_few(row, TOO_FEW(**figures, needed=found.needed_items), progress)

    def _too_few(self, row: Release, told: Any, progress: Mapping[str, Any]) -> StepOutcome:
        if self.spec.on_too_few == "fail":
            return halt(row, told, kind=Halt.FAIL, save={"progress": progress})
        return self.go_on(row, note=told, detail=progress)


def _figures(found: PairedEstimate, candidate: float, stable: float) -> dict[str, Any]:
    return {
        "items": found.items,
        "candidate": candidate,
        "stable": stable,
        "low": found.low,
        "high": found.high,
        "margin": -found.margin,
    }


def models_of(row: Release) -> tuple[str, str]:
    """Return each side's name of its model. Servers of other makers may know one name alone."""
    if server_of(fleet.deployment(row.candidate_deployment)) is not None:
        return row.service.name, row.service.name
    return str(row.version), str(row.from_version)


def _lost(item: LabelledItem, candidate: WorkerAnswer, stable: WorkerAnswer) -> Mapping[str, str]:
    return {
        "item": item.shown[: answers.SHOWN],
        "candidate": (candidate.fault or candidate.text)[: answers.SHOWN],
        "stable": stable.text[: answers.SHOWN],
    }


def _keep_figure(row: Release, items: str, value: float) -> None:
    """Keep the candidate's share of right answers beside the version."""
    figure = FigureInput(name="accuracy", value=value, dataset=items, unit="", is_higher_better=True)
    with suppress(SlipwayError):
        evaluate_version(actor=ACTOR, version=row.version, figures=[figure], reason=str(row))
