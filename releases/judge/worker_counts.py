"""From what workers count to what the judge is told: a service's indicators, latency by route."""

from collections.abc import Mapping
from typing import Any, Protocol

from releases.judge.counts import Histogram, answers_above, answers_of, slow_threshold_ms
from releases.judge.evidence import BadRequestCount, SideCounts
from releases.judge.rules import DECLARED, LATENCY, IndicatorName, JudgeRules
from releases.judge.threshold import at_bound


class DeclaredCount(Protocol):
    @property
    def requests(self) -> int: ...
    @property
    def lower_is_better(self) -> bool: ...


class WorkerCountsLike(Protocol):
    """The part of `gateway.worker_figures.WorkerFigures` that is judged."""

    @property
    def epoch(self) -> str: ...
    @property
    def requests(self) -> int: ...
    @property
    def indicators(self) -> Mapping[str, DeclaredCount]: ...
    @property
    def timings(self) -> Mapping[str, Histogram]: ...


def latency_thresholds(
    known: Mapping[str, float], stable: WorkerCountsLike, rules: JudgeRules
) -> dict[str, float]:
    """Return the time above which an answer is slow, by route: the plan's objective, or what stable's workers
    have shown up to now. What is known stays.
    """
    found = dict(known)
    for of, one in rules.latencies.items():
        if of in found:
            continue
        learnt = slow_threshold_ms(stable.timings.get(of, ()))
        if (milliseconds := learnt if one.above_ms is None else at_bound(one.above_ms)) is not None:
            found[of] = milliseconds
    return found


def worker_tallies(
    counts: WorkerCountsLike, rules: JudgeRules, thresholds_ms: Mapping[str, float]
) -> dict[str, Any]:
    """All that is judged of one side up to now, as JSON; `sides_between` compares two of them. What the
    workers do not count is left out."""
    tallies: dict[IndicatorName, list[int]] = {}
    for name in rules.indicators:
        if (declared := counts.indicators.get(name)) is not None:
            bad = min(declared.requests, counts.requests)
            bad = bad if declared.lower_is_better else counts.requests - bad
            tallies[f"{DECLARED}{name}"] = [counts.requests, bad]
    for of in rules.latencies:
        histogram = counts.timings.get(of, ())
        if of in thresholds_ms and (slow := answers_above(histogram, thresholds_ms[of])) is not None:
            tallies[f"{LATENCY}{of}"] = [answers_of(histogram), slow]
    return {"epoch": counts.epoch, "tallies": tallies}


def sides_between(
    before: Mapping[str, Any], after: Mapping[str, Any], *, candidate: str, stable: str
) -> dict[IndicatorName, SideCounts]:
    """Return what both sides counted between two readings; without what one of them did not count, and
    nothing when a worker of either was started meanwhile.
    """
    pairs = [(before.get(name), after.get(name)) for name in (candidate, stable)]
    if any(old is None or new is None or old["epoch"] != new["epoch"] for old, new in pairs):
        return {}
    theirs, ours = (
        {
            name: _difference(old["tallies"][name], tally)
            for name, tally in new["tallies"].items()
            if name in old["tallies"]
        }
        for old, new in pairs
        if old is not None and new is not None
    )
    return {name: SideCounts(tally, ours[name]) for name, tally in theirs.items() if name in ours}


def _difference(before: list[int], after: list[int]) -> BadRequestCount:
    # Numbers are read one after the other: a bad answer may be seen a moment before its request.
    requests, bad = (max(late - early, 0) for early, late in zip(before, after, strict=True))
    return BadRequestCount(requests, min(bad, requests))
