"""Statistics of repeats: the repeat is the sample, not the request. Pure; see docs/BENCHMARKS.md."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev, variance
from typing import Literal, TypeVar

LEAST_REPEATS = 5
"""Below, a difference is shown and not judged."""
ALPHA = 0.05

ComparisonVerdict = Literal["no verdict", "no difference", "higher", "lower"]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """Geometric mean of repeats, with its 95 % interval where there are two at least."""

    value: float
    low: float | None
    high: float | None
    samples: int


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """The ratio of one configuration's figure to another's."""

    ratio: float
    low: float | None
    high: float | None
    p_value: float | None
    samples: tuple[int, int]
    verdict: ComparisonVerdict


def estimate(values: Sequence[float]) -> MeanEstimate | None:
    """Estimate the mean; None without a value above 0."""
    logs = [math.log(value) for value in values if value > 0]
    if not logs:
        return None
    mean = fmean(logs)
    if len(logs) < 2:
        return MeanEstimate(math.exp(mean), None, None, len(logs))
    half = t_quantile(1 - ALPHA / 2, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return MeanEstimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))


def compare(ours: Sequence[float], theirs: Sequence[float]) -> RatioEstimate | None:
    """Compare by Welch's t interval of the difference of logarithms; None where a side has no value > 0."""
    one = [math.log(value) for value in ours if value > 0]
    other = [math.log(value) for value in theirs if value > 0]
    if not one or not other:
        return None
    samples = (len(one), len(other))
    difference = fmean(one) - fmean(other)
    if min(samples) < 2:
        return RatioEstimate(math.exp(difference), None, None, None, samples, "no verdict")
    parts = variance(one) / len(one), variance(other) / len(other)
    error = math.sqrt(sum(parts))
    if error == 0:
        p_value, half = (1.0 if difference == 0 else 0.0), 0.0
    else:
        freedom = sum(parts) ** 2 / sum(
            part**2 / (count - 1) for part, count in zip(parts, samples, strict=True)
        )
        p_value = 2 * (1 - t_probability(abs(difference) / error, freedom))
        half = t_quantile(1 - ALPHA / 2, freedom) * error
    found = RatioEstimate(
        math.exp(difference),
        math.exp(difference - half),
        math.exp(difference + half),
        p_value,
        samples,
        "no verdict",
    )
    return judged(found, p_value)


def judged(found: RatioEstimate, p_value: float) -> RatioEstimate:
    """Return the estimate with the verdict that this p-value gives, adjusted or not."""
    if min(found.samples) < LEAST_REPEATS:
        return replace(found, p_value=p_value, verdict="no verdict")
    verdict: ComparisonVerdict = "no difference"
    if p_value < ALPHA:
        verdict = "higher" if found.ratio > 1 else "lower"
    return replace(found, p_value=p_value, verdict=verdict)


def compare_family(
    pairs: Mapping[Key, tuple[Sequence[float], Sequence[float]]],
) -> dict[Key, RatioEstimate]:
    """Compare each pair and judge it by its p-value adjusted by Holm over all; pairs that `compare` leaves
    out are missing."""
    found = {key: ratio for key, sides in pairs.items() if (ratio := compare(*sides)) is not None}
    adjusted = holm({key: one.p_value for key, one in found.items() if one.p_value is not None})
    return {key: judged(one, adjusted[key]) if key in adjusted else one for key, one in found.items()}


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Adjust the p-values of a family of comparisons by Holm's step-down procedure."""
    adjusted: dict[Key, float] = {}
    highest = 0.0
    for place, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda one: one[1])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_value))
        adjusted[name] = highest
    return adjusted


def mser5(values: Sequence[float], *, gain: float = 0.2) -> int:
    """Return how many leading values are warm-up: where the mean square error of the rest is least (MSER-5,
    White 1997), at most half; 0 unless that is less than the whole's by the `gain`.
    """
    batches = [fmean(values[place : place + 5]) for place in range(0, len(values) - 4, 5)]
    if len(batches) < 4:
        return 0

    def error(cut: int) -> float:
        rest = batches[cut:]
        mean = fmean(rest)
        return sum((one - mean) ** 2 for one in rest) / len(rest) ** 2

    best = min(range(len(batches) // 2 + 1), key=error)
    return 5 * best if error(best) < (1 - gain) * error(0) else 0


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares slope, and its t-value; (0, 0) for fewer than three points."""
    count = len(points)
    if count < 3:
        return 0.0, 0.0
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return 0.0, 0.0
    found = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    left = sum((y - mean_y - found * (x - mean_x)) ** 2 for x, y in points)
    error = math.sqrt(left / (count - 2) / spread)
    return found, found / error if error else math.copysign(math.inf, found) if found else 0.0


def t_probability(t: float, freedom: float) -> float:
    """Student's cumulative distribution function."""
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    tail = _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile by bisection; `probability` must be above one half."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function by Lentz's continued fraction (Numerical Recipes)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    fraction = denominator
    for step in range(1, 500):
        for factor in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            denominator = 1 / (1 + factor * denominator or tiny)
            numerator = 1 + factor / numerator or tiny
            fraction *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-12:
            break
    return front * fraction / a
