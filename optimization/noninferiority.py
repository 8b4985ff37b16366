"""The accuracy gate: is a version at most a margin worse than its parent? Pure; see docs/OPTIMISATION.md.

Parent and child answer the same items. A difference is the child's score less the parent's, so that higher
is better; the version passes when the mean difference is shown to lie above -margin, one-sided at 5 %.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean
from typing import Literal

from benchmarks.statistics import holm, t_probability, t_quantile

ALPHA = 0.05
POWER = 0.9
"""Of the number of items that is said to be enough."""
MOST_ITEMS = 1_000_000

GateVerdict = Literal["passed", "failed", "needs_items"]


@dataclass(frozen=True, slots=True)
class PairedEstimate:
    """`low` and `high` are one-sided 95 % bounds of the mean difference."""

    items: int
    difference: float
    low: float
    high: float
    margin: float
    p_value: float
    """Of the hypothesis that the child is worse by the margin or more."""
    verdict: GateVerdict
    needed_items: int | None = None
    """So many would probably decide; None: decided, or no number would."""
    flip_rate: float = 0.0
    """Share of the items whose score is another one."""


def estimate(differences: Sequence[float], *, margin: float, is_binary: bool) -> PairedEstimate:
    """Judge one metric of two items at least alone. `is_binary`: scores are 0 or 1.

    Where no answer, or hardly one, flips, the spread of a sample says nothing: one more flip each way is
    supposed then, which is the rule of three.
    """
    items = len(differences)
    mean = fmean(differences)
    spread = math.fsum((one - mean) ** 2 for one in differences) / (items - 1)
    flips = sum(1 for one in differences if one) / items
    if is_binary:
        spread = max(spread, flips + 1 / items - mean**2)
    error = math.sqrt(spread / items)
    half = t_quantile(1 - ALPHA, items - 1) * error
    if error:
        p_value = 1 - t_probability((mean + margin) / error, items - 1)
    else:
        p_value = 0.0 if mean > -margin else 1.0
    found = PairedEstimate(
        items, mean, mean - half, mean + half, margin, p_value, "needs_items", flip_rate=flips
    )
    return _decided(found, p_value, math.sqrt(spread))


def judge(
    differences: Mapping[str, Sequence[float]], *, margins: Mapping[str, float], binary: frozenset[str]
) -> dict[str, PairedEstimate]:
    """Judge each metric by its p-value adjusted by Holm over all."""
    found = {
        name: estimate(values, margin=margins[name], is_binary=name in binary)
        for name, values in differences.items()
    }
    adjusted = holm({name: one.p_value for name, one in found.items()})
    return {name: _decided(one, adjusted[name], _spread(one)) for name, one in found.items()}


def overall(found: Mapping[str, PairedEstimate]) -> GateVerdict:
    """All metrics must pass; one that failed decides."""
    verdicts = {one.verdict for one in found.values()}
    if "failed" in verdicts:
        return "failed"
    return "passed" if verdicts == {"passed"} else "needs_items"


def _decided(found: PairedEstimate, p_value: float, spread: float) -> PairedEstimate:
    if p_value < ALPHA:
        return replace(found, p_value=p_value, verdict="passed", needed_items=None)
    if found.high < -found.margin:
        return replace(found, p_value=p_value, verdict="failed", needed_items=None)
    return replace(found, p_value=p_value, verdict="needs_items", needed_items=_needed(found, spread))


def _spread(found: PairedEstimate) -> float:
    return (found.high - found.low) / 2 / t_quantile(1 - ALPHA, found.items - 1) * math.sqrt(found.items)


def _needed(found: PairedEstimate, spread: float) -> int | None:
    """Items that decide with `POWER`, if difference and spread stay as they are."""
    distance = abs(found.difference + found.margin)
    normal = NormalDist()
    factor = normal.inv_cdf(1 - ALPHA) + normal.inv_cdf(POWER)
    if distance * math.sqrt(MOST_ITEMS) <= factor * spread:
        return None
    return max(found.items + 1, math.ceil((factor * spread / distance) ** 2))
