"""Which configuration to use, and how sure that is: from the objective's value of each valid run. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import statistics
from benchmarks.figures import Summary
from benchmarks.load.scenario import LatencyTargets
from benchmarks.spec import BenchmarkObjective
from benchmarks.states import ObjectiveKind
from benchmarks.statistics import LEAST_REPEATS, MeanEstimate, RatioEstimate


def objective_value(
    objective: BenchmarkObjective, targets: LatencyTargets, windows: Sequence[Summary]
) -> float | None:
    """Return the objective of a run from its valid windows, or None when it has none that counts.

    Goodput is that of the best window in which the share within the targets was reached; latency that of the
    window with the highest rate.
    """
    if objective.kind == ObjectiveKind.LATENCY:
        last = max(windows, key=lambda one: one.rate, default=None)
        return last.value(objective.figure) if last else None
    held = [one for one in windows if targets.is_empty or one.good_share >= targets.share]
    if objective.kind == ObjectiveKind.GOODPUT_PER_PRICE:
        prices = [price for one in held if (price := one.value("price_per_million_tokens"))]
        return 1 / min(prices) if prices else None
    return max((one.value("goodput") or 0.0 for one in held), default=None)


@dataclass(frozen=True, slots=True)
class CellConclusion:
    cell: int
    value: MeanEstimate
    against_best: RatioEstimate | None
    """Its value over the best one's; None: it is the best."""


@dataclass(frozen=True, slots=True)
class BenchmarkConclusion:
    """`best` is None where no configuration has a valid run. `verdict`: `best` (every other is worse),
    `tied` (some are not told apart from it), `no verdict` (too few repeats), `only` (there is no other)."""

    best: int | None
    verdict: str
    cells: Sequence[CellConclusion] = ()
    """From the best to the worst."""
    tied: Sequence[int] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def conclude(values: Mapping[int, Sequence[float]], objective: BenchmarkObjective) -> BenchmarkConclusion:
    """`values`: of the valid runs of each configuration."""
    found = {cell: one for cell, some in values.items() if (one := statistics.estimate(some)) is not None}
    if not found:
        return BenchmarkConclusion(None, "no verdict")
    sign = 1 if objective.is_lower_better else -1
    order = sorted(found, key=lambda cell: (sign * found[cell].value, cell))
    best, others = order[0], order[1:]
    ratios = statistics.compare_family({cell: (values[cell], values[best]) for cell in others})
    tied = [cell for cell, one in ratios.items() if one.verdict == "no difference"]
    if not others:
        verdict = "only" if found[best].samples >= LEAST_REPEATS else "no verdict"
    elif any(one.verdict == "no verdict" for one in ratios.values()):
        verdict = "no verdict"
    else:
        verdict = "tied" if tied else "best"
    told = [CellConclusion(cell, found[cell], ratios.get(cell)) for cell in order]
    return BenchmarkConclusion(best, verdict, told, tied)
