"""The judge's reasons in one sentence, for the record: numbers first. They are stored, so they stay English.

The page tells the same from the same figures in the reader's language (releases/pages/analysis.py).
"""

import math
from collections.abc import Mapping, Sequence

from releases.judge.evidence import Evidence, IndicatorEvidence
from releases.judge.progress import IndicatorProgress, seconds_for
from releases.judge.rules import IndicatorName, IndicatorRules, JudgeRules

_NOUNS: Mapping[IndicatorName, str] = {"errors": "5xx", "slow": "slow requests"}


def abort_reason(evidence: Evidence, rules: JudgeRules) -> str:
    lately = evidence.indicators["errors"].lately.sides
    candidate, stable = lately.candidate, lately.stable
    return (
        f"Candidate 5xx of the latest: {_bad_of(candidate.bad, candidate.requests, candidate.share)}; "
        f"stable {_bad_of(stable.bad, stable.requests, stable.share)}. "
        f"Rolled back at once, as more than {rules.abort_above_percent:g} % failed."
    )


def roll_back_reason(name: IndicatorName, evidence: Evidence, rules: JudgeRules) -> str:
    part = evidence.indicators[name]
    ratio = rules.indicators[name].roll_back_above_ratio
    supposed = "equal" if ratio == 1.0 else f"at most {ratio:g} times stable's"
    lately = part.lately.sides.candidate
    late = ""
    if lately.share > 2 * part.totals.candidate.share:
        late = f"; of the candidate's latest {lately.requests:,}: {lately.bad:,}"
    return (
        f"{_comparison(name, part, evidence)}{late}. Rolled back: "
        f"the chance of this if the candidate's rate were {supposed} is under {chance(part.reject_peak)}."
    )


def promote_reason(evidence: Evidence, rules: JudgeRules) -> str:
    comparisons = ". ".join(_comparison(name, part, evidence) for name, part in evidence.indicators.items())
    claims = " and ".join(
        f"{_NOUNS[name]} {_claim(indicator)}"
        for name, indicator in rules.indicators.items()
        if indicator.certifies
    )
    return (
        f"{comparisons}. Passed: {claims}; "
        f"the chance of passing a worse candidate is under {rules.false_promote_percent:g} %."
    )


def doubt_reason(progress: IndicatorProgress, evidence: Evidence) -> str:
    part = evidence.indicators[progress.name]
    return (
        f"{_comparison(progress.name, part, evidence)}. Passed earlier, but there is now "
        f"{_whole_percent(progress.reject_progress)} of the evidence that a rollback needs: inconclusive."
    )


def outage_reason(evidence: Evidence) -> str:
    lately = evidence.indicators["errors"].lately.sides
    candidate, stable = lately.candidate, lately.stable
    return (
        f"Candidate 5xx of the latest: {_bad_of(candidate.bad, candidate.requests, candidate.share)}; "
        f"stable {_bad_of(stable.bad, stable.requests, stable.share)}. Passed earlier, but both versions "
        "fail now: inconclusive until that is over."
    )


def insufficient_reason(
    evidence: Evidence, rules: JudgeRules, told: Sequence[IndicatorProgress], *, requests: int | None
) -> str:
    candidate = evidence.indicators["errors"].totals.candidate
    stable = evidence.indicators["errors"].totals.stable
    if not candidate.requests:
        return "Inconclusive: the candidate has answered no request yet."
    missing = [
        f"{_NOUNS[progress.name]} {_whole_percent(progress.accept_progress)}"
        for progress in told
        if not progress.certified
    ]
    after = f"Inconclusive after {_count(candidate.requests, 'candidate request')}"
    if missing:
        so_far = f"{after}; evidence so far, of what passing needs: {', '.join(missing)}."
    else:
        so_far = f"{after}; at least {rules.least_requests:,} are required."
    if not stable.requests:
        return f"{so_far} Stable answers no requests, so there is nothing to compare with."
    if rules.slow is not None and evidence.slow_threshold_ms is None:
        return f"{so_far} Stable has answered too few requests to know its usual latency."
    if requests is None:
        never = next(progress for progress in told if progress.requests_to_certify is None)
        too_rare = not (never.candidate.bad or never.stable.bad)
        why = f": {_NOUNS[never.name]} are too rare on both sides to be compared" if too_rare else ""
        return f"{so_far} At these rates no number of requests would do{why}."
    seconds = seconds_for(evidence, requests)
    at_rate = "" if seconds is None else f" ({_duration(seconds)} at the present rate)"
    return f"{so_far} About {_count(requests, 'more request')}{at_rate} if it is as good as stable."


def chance(log_e: float) -> str:
    """Ville's bound 1 / e-value, rounded up: "2.5 %", "1 in 10,000"."""
    bound = math.exp(-log_e)
    if bound < 1e-9:
        return "1 in a billion"
    if bound < 1e-3:
        return f"1 in {10 ** math.floor(log_e / math.log(10)):,}"
    # Less a hair, so that exactly 1 / 40 is told as 2.5 % and not, by its last digit, as 2.6 %.
    return f"{math.ceil(1000 * bound - 1e-9) / 10:g} %"


def _claim(indicator: IndicatorRules) -> str:
    claims = []
    if indicator.promote_below_ratio is not None:
        claims.append(f"below {indicator.promote_below_ratio:g} times stable's")
    if indicator.promote_below_percent is not None:
        claims.append(f"below {indicator.promote_below_percent:g} %")
    return " or ".join(claims)


def _comparison(name: IndicatorName, part: IndicatorEvidence, evidence: Evidence) -> str:
    candidate, stable = part.totals.candidate, part.totals.stable
    what = "5xx"
    if name == "slow":
        threshold = evidence.slow_threshold_ms
        what = "slow" if threshold is None else f"slower than {threshold:g} ms"
    return (
        f"Candidate {what}: {_bad_of(candidate.bad, candidate.requests, candidate.share)}; "
        f"stable {_bad_of(stable.bad, stable.requests, stable.share)}"
    )


def _bad_of(bad: int, requests: int, share: float) -> str:
    return f"{bad:,} / {requests:,} ({_percent(share)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    percent = 100 * share
    if not percent:
        return "0 %"
    return f"{percent:.1f} %" if percent >= 0.05 else f"{percent:.1g} %"


def _whole_percent(share: float) -> str:
    return f"{math.floor(100 * share)} %"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(math.ceil(seconds), 1)} s"
    if seconds < 5400:
        return f"{math.ceil(seconds / 60)} min"
    return f"{math.ceil(seconds / 3600):,} h"
