"""The verdict of an accuracy check from its scores. Pure."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from optimization.items import is_binary, is_higher_better, is_share
from optimization.noninferiority import GateVerdict, PairedEstimate, judge, overall

MOST_WORST = 20


@dataclass(frozen=True, slots=True)
class MetricResult:
    """Values as people know them: share of right answers, perplexity, distance."""

    parent: float
    child: float
    estimate: PairedEstimate


@dataclass(frozen=True, slots=True)
class AccuracyOutcome:
    items: int
    results: Mapping[str, MetricResult]
    worst: Sequence[Mapping[str, Any]]
    verdict: GateVerdict


def read_scores(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def outcome_of(scores: Sequence[Mapping[str, Any]], *, margin_percent: float) -> AccuracyOutcome:
    """`margin_percent`: points of accuracy, percent of perplexity and of the parent's distance."""
    by_metric: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in scores:
        by_metric[one["metric"]].append(one)
    margins = {name: margin_of(name, margin_percent) for name in by_metric}
    estimates = judge(
        {name: [one["child"] - one["parent"] for one in some] for name, some in by_metric.items()},
        margins=margins,
        binary=frozenset(filter(is_binary, by_metric)),
    )
    results = {
        name: MetricResult(
            _value(name, [one["parent"] for one in some]),
            _value(name, [one["child"] for one in some]),
            estimates[name],
        )
        for name, some in by_metric.items()
    }
    losses = sorted(scores, key=lambda one: one["child"] - one["parent"])
    worst = [one for one in losses[:MOST_WORST] if one["child"] < one["parent"]]
    return AccuracyOutcome(len(scores), results, worst, overall(estimates))


def margin_of(metric: str, percent: float) -> float:
    """Return the margin in the unit of a score: a share, or nats per token."""
    return percent / 100 if is_share(metric) else math.log1p(percent / 100)


def margin_percent(metric: str, margin: float) -> float:
    """Return the number that `margin_of` was given."""
    return abs(in_percent(metric, -margin))


def in_percent(metric: str, difference: float) -> float:
    """Return a difference of scores as people know it: points, or percent of perplexity; less is worse."""
    return difference * 100 if is_share(metric) else -math.expm1(-difference) * 100


def _value(metric: str, scores: Sequence[float]) -> float:
    if not is_share(metric):
        return math.exp(-fmean(scores))
    return fmean(scores) if is_higher_better(metric) else -fmean(scores)
