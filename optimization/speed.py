"""Whether a version serves at least as well as its parent, from the figures of their benchmark. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.statistics import RatioEstimate, compare

FASTER_IS_HIGHER: Mapping[str, bool] = {
    "output_rate": True,
    "ttft_p50": False,
    "tpot_p50": False,
    "picture_rate": True,
}
"""Figures that are judged, and whether more of them is better."""
MARGIN = 0.05
"""Loss that does not count: two deployments of the same version differ by some percent on a busy machine."""


@dataclass(frozen=True, slots=True)
class SpeedRatio:
    """Ratio of the child to its parent at one rate; above 1 the child is better, whatever the figure.

    `is_worse`: the loss is shown, by the p-value adjusted over all figures and by an interval that lies below
    1 less the margin.
    """

    rate: float
    name: str
    ratio: float
    low: float | None
    high: float | None
    is_worse: bool
    has_verdict: bool
    compared_with: Literal["parent", "static"] = "parent"
    """`static`: the same version with static batching."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ratios_of(
    figures: Iterable[tuple[float, str, RatioEstimate]],
    compared_with: Literal["parent", "static"] = "parent",
) -> list[SpeedRatio]:
    """`figures`: child over what it is compared with, as `benchmarks.selectors.compared` gives them."""
    found = []
    for rate, name, one in figures:
        if name not in FASTER_IS_HIGHER:
            continue
        is_higher_better = FASTER_IS_HIGHER[name]
        low, high = (one.low, one.high) if is_higher_better else (_inverse(one.high), _inverse(one.low))
        found.append(
            SpeedRatio(
                rate=rate,
                name=name,
                ratio=one.ratio if is_higher_better else 1 / one.ratio,
                low=low,
                high=high,
                is_worse=one.verdict == ("lower" if is_higher_better else "higher")
                and high is not None
                and high < 1 - MARGIN,
                has_verdict=one.verdict != "no verdict",
                compared_with=compared_with,
            )
        )
    return found


def picture_ratios(seconds: Mapping[str, Sequence[float]]) -> list[SpeedRatio]:
    """Return the ratio of the rates at which child and parent drew, from seconds per picture in turn."""
    rates = [[1 / one for one in seconds[side] if one > 0] for side in ("child", "parent")]
    found = compare(*rates)
    return ratios_of([(0.0, "picture_rate", found)]) if found else []


@dataclass(frozen=True, slots=True)
class SpeedVerdict:
    """`missing`: nothing that counts was measured. `worse`: the worst figure that is shown to be worse."""

    is_passed: bool
    missing: bool = False
    worse: SpeedRatio | None = None
    best: SpeedRatio | None = None


def judge_speed(ratios: Sequence[SpeedRatio], *, gain: float) -> SpeedVerdict:
    """Passed: no figure is shown to be worse by more than the margin and, if a `gain` above 1 is demanded,
    one of them is shown to be at least so many times as good."""
    judged = [one for one in ratios if one.has_verdict and one.compared_with == "parent"]
    if not judged:
        return SpeedVerdict(is_passed=False, missing=True)
    best = max(judged, key=lambda one: one.low or 0.0)
    if worse := [one for one in judged if one.is_worse]:
        return SpeedVerdict(False, worse=min(worse, key=lambda one: one.ratio), best=best)
    return SpeedVerdict(gain <= 1 or (best.low or 0.0) >= gain, best=best)


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None
