"""Answers of candidate and stable to the same requests, compared: terms, figures, verdict. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated, Any

from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from common.patterns import Pattern, compiled, hidden
from optimization.noninferiority import estimate
from releases import answers
from releases.messages import MessageTemplate, ReleaseMessage, count
from releases.plans.step import StepSpec, whole

LEAST_ITEMS = 20
SAMPLES_KEPT = 10
"""Pairs that agree least, kept to be looked at."""
HIDDEN = "███"
_WRITTEN_WITHOUT_SPACES = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_WRITTEN_WITHOUT_SPACES}]|[^\W{_WRITTEN_WITHOUT_SPACES}]+")

_FIGURES: Mapping[str, Any] = {
    "items": count,
    "same": lambda value: f"{value:.0%}",
    "overlap": lambda value: f"{value:.0%}",
    "refused": lambda value: f"{value:.1%}",
    "refused_by_stable": lambda value: f"{value:.1%}",
    "length": lambda value: f"{value:.2f}",
    "latency": lambda value: f"{value:.2f}",
}
_COST = {"cost": lambda value: f"{value:.2f}"}
FIGURES = MessageTemplate(
    "compare_answers.figures",
    gettext_lazy(
        "%(items)s requests: %(same)s answered word for word alike, %(overlap)s of the words in common, "
        "refused %(refused)s (stable %(refused_by_stable)s), length %(length)s× and latency %(latency)s× "
        "stable's."
    ),
    **_FIGURES,
)
FIGURES_WITH_COST = MessageTemplate(
    "compare_answers.figures_with_cost",
    gettext_lazy(
        "%(items)s requests: %(same)s answered word for word alike, %(overlap)s of the words in common, "
        "refused or failed %(refused)s (stable %(refused_by_stable)s), length %(length)s×, latency "
        "%(latency)s× and time of workers %(cost)s× stable's."
    ),
    **_FIGURES,
    **_COST,
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
FEW_FOR_REFUSALS = MessageTemplate(
    "compare_answers.few_for_refusals",
    gettext_lazy(
        "Too few requests to show that it refuses at most %(bound)s more: some %(needed)s are needed."
    ),
    needed=count,
    bound=_FIGURES["refused"],
)
SLOW = MessageTemplate(
    "compare_answers.slow",
    gettext_lazy("It takes %(value)s× stable's time, more than %(bound)s×."),
    value=_FIGURES["latency"],
    bound=_FIGURES["latency"],
)
COSTLY = MessageTemplate(
    "compare_answers.costly",
    gettext_lazy("An answer takes %(value)s× the time of workers that stable's takes, more than %(bound)s×."),
    value=_COST["cost"],
    bound=_COST["cost"],
)


class ComparisonStep(StepSpec):
    """The terms on which answers are compared."""

    checks = True
    compares = True

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
        description=gettext_noop("Regular expression (RE2); an answer that it is found in is a refusal."),
    )
    redact: Pattern = Field(
        default=r"[\w.+-]+@[\w-]+\.[\w.]+|\d{6,}",
        title=gettext_noop("Redact"),
        description=gettext_noop("Regular expression (RE2) of what is hidden in the pairs that are kept."),
    )


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """An answer of one side."""

    text: str
    seconds: float
    has_failed: bool = False
    worker_seconds: float = 0.0
    """Its share of a worker's time; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Both answers to one request: in figures, and redacted."""

    figures: Sequence[float]
    """Overlap, same, refused, refused by stable, length and latency over stable's, workers' time of each."""
    sample: Mapping[str, Any]


def overlap_of(one: str, other: str) -> float:
    """Return the words in common: twice their number over those of both, 1 for two empty answers."""
    ours, theirs = (Counter(_WORD.findall(words.casefold())) for words in (one, other))
    total = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / total if total else 1.0


def pair_of(
    terms: ComparisonStep, shown: str, candidate: ComparedAnswer, stable: ComparedAnswer
) -> AnswerPair:
    refused, refused_by_stable = (
        answer.has_failed
        or bool(terms.refusals and compiled(terms.refusals, ignores_case=True).search(answer.text))
        for answer in (candidate, stable)
    )
    overlap = overlap_of(candidate.text, stable.text)
    figures = (
        overlap,
        float(candidate.text.strip() == stable.text.strip()),
        float(refused),
        float(refused_by_stable),
        max(len(candidate.text), 1) / max(len(stable.text), 1),
        candidate.seconds / stable.seconds if stable.seconds else 1.0,
        candidate.worker_seconds,
        stable.worker_seconds,
    )
    sides = {"item": shown, "candidate": candidate.text, "stable": stable.text}
    sample = {name: redacted(terms, words) for name, words in sides.items()}
    return AnswerPair(figures, {**sample, "overlap": round(overlap, 3)})


def redacted(terms: ComparisonStep, words: str) -> str:
    """Return what may be kept of a text. Hidden first, then cut: half a number is a number."""
    return hidden(terms.redact, words, mark=HIDDEN)[: answers.SHOWN]


def gathered(before: Mapping[str, Any], pairs: Sequence[AnswerPair]) -> dict[str, Any]:
    """Return the progress of a step with more pairs. Of samples that are alike one is kept."""
    found = [*before.get("samples", []), *(one.sample for one in pairs)]
    samples = list({(one["item"], one["candidate"], one["stable"]): one for one in found}.values())
    return {
        "figures": [*before.get("figures", []), *(list(one.figures) for one in pairs)],
        "samples": sorted(samples, key=lambda one: one["overlap"])[:SAMPLES_KEPT],
    }


def compare(
    terms: ComparisonStep, figures: Sequence[Sequence[float]], *, max_cost_ratio: float | None = None
) -> tuple[dict[str, Any], ReleaseMessage, ReleaseMessage | None]:
    """Return what was found, in figures and in words, and what speaks against the candidate.

    `needed` in the figures: nothing does but that there are too few pairs, and so many would do.
    """
    overlaps, same, refused, refused_by_stable, lengths, latencies, theirs, ours = zip(
        *([*row, 0.0, 0.0][:8] for row in figures), strict=True
    )
    found = {
        "items": len(figures),
        "same": fmean(same),
        "overlap": fmean(overlaps),
        "refused": fmean(refused),
        "refused_by_stable": fmean(refused_by_stable),
        "length": median(lengths),
        "latency": median(latencies),
    }
    margin = terms.max_more_refusals_percent / 100
    differences = [float(less) - float(more) for more, less in zip(refused, refused_by_stable, strict=True)]
    more = estimate(differences, margin=margin, is_binary=True)
    told, least = FIGURES(**found), terms.min_overlap_percent / 100
    if sum(ours):
        found["cost"] = sum(theirs) / sum(ours)
        told = FIGURES_WITH_COST(**found)
    fault = None
    if found["overlap"] < least:
        fault = UNLIKE(value=found["overlap"], bound=least)
    elif more.verdict != "passed" and more.needed_items is None:
        fault = REFUSES(value=-more.low, bound=margin)
    elif found["latency"] > terms.max_latency_ratio:
        fault = SLOW(value=found["latency"], bound=terms.max_latency_ratio)
    elif max_cost_ratio is not None and found.get("cost", 0.0) > max_cost_ratio:
        fault = COSTLY(value=found["cost"], bound=max_cost_ratio)
    elif more.needed_items is not None:
        found["needed"] = more.needed_items
        fault = FEW_FOR_REFUSALS(needed=more.needed_items, bound=margin)
    return found, told, fault
