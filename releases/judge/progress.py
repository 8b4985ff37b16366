"""How far the evidence is towards each limit, and how much more it would take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from releases.judge import eprocess
from releases.judge.evidence import BadRequestCount, IndicatorEvidence, JudgeEvidence
from releases.judge.rules import IndicatorName, IndicatorRules, JudgeRules


@dataclass(frozen=True, slots=True)
class IndicatorProgress:
    """Progress of one indicator towards each of its limits."""

    name: IndicatorName
    candidate: BadRequestCount
    stable: BadRequestCount
    reject_progress: float
    """0..1, of the way (in logarithms) to rolling back, as it stands now."""
    accept_progress: float
    """0..1, of the way (in logarithms) to certified; 1 for good once there."""
    certified: bool
    """True, too, when a promotion does not need this indicator."""
    in_outage: bool
    """Both sides answer badly at present: nothing passes until that is over."""
    requests_to_certify: int | None
    """Candidate requests still needed if it is as good as stable; None when no number of them would do."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "candidate": {"requests": self.candidate.requests, "bad": self.candidate.bad},
            "stable": {"requests": self.stable.requests, "bad": self.stable.bad},
            "reject_progress": round(self.reject_progress, 4),
            "accept_progress": round(self.accept_progress, 4),
            "certified": self.certified,
            "in_outage": self.in_outage,
            "requests_to_certify": self.requests_to_certify,
        }


def indicator_progress(name: IndicatorName, part: IndicatorEvidence, rules: JudgeRules) -> IndicatorProgress:
    indicator = rules.judged[name]
    certified = not indicator.certifies or part.accept_peak >= rules.log_accept_limit
    return IndicatorProgress(
        name=name,
        candidate=part.totals.candidate,
        stable=part.totals.stable,
        reject_progress=_clipped(part.log_reject / rules.log_reject_limit),
        accept_progress=1.0 if certified else _clipped(part.log_accept / rules.log_accept_limit),
        certified=certified,
        in_outage=part.in_outage(indicator),
        requests_to_certify=0 if certified else _indicator_forecast(part, indicator, rules),
    )


def mean_progress(evidence: JudgeEvidence, rules: JudgeRules) -> float:
    """Return how far the mean of all e-values is towards rolling back, 0..1."""
    return _clipped(evidence.log_mean(rules) / rules.log_mean_limit)


def requests_to_certify(
    evidence: JudgeEvidence, rules: JudgeRules, told: Sequence[IndicatorProgress]
) -> int | None:
    """Candidate requests until every indicator is certified; None when one of them never would be."""
    needed = [rules.least_requests - evidence.indicators["errors"].totals.candidate.requests, 0]
    for progress in told:
        if progress.requests_to_certify is None:
            return None
        needed.append(progress.requests_to_certify)
    return max(needed)


def seconds_for(evidence: JudgeEvidence, requests: int | None) -> float | None:
    """Return how long `requests` take at the candidate's latest rate; None when it has had none."""
    lately = evidence.indicators["errors"].lately
    if requests is None or not lately.seconds or not lately.sides.candidate.requests:
        return None
    return requests * lately.seconds / lately.sides.candidate.requests


def _clipped(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _indicator_forecast(part: IndicatorEvidence, indicator: IndicatorRules, rules: JudgeRules) -> int | None:
    """Candidate requests until one bet alone certifies, if both sides go on at their pooled rate."""
    pooled = part.totals.both.share
    split = part.lately.sides
    per_session = rules.requests_per_session
    growths: list[tuple[float, float]] = []
    if indicator.promote_below_ratio is not None and split.candidate.requests:
        stable_per_candidate = split.stable.requests / split.candidate.requests
        ratios = eprocess.accept_ratios(indicator.promote_below_ratio)
        for bet, ratio in zip(part.accept_ratio_bets, ratios, strict=True):
            log_c, log_d = eprocess.log_factors(
                candidate=split.candidate.requests,
                stable=split.stable.requests,
                null_ratio=indicator.promote_below_ratio,
                bet_ratio=ratio,
            )
            growths.append((bet, pooled * (log_c + stable_per_candidate * log_d) / per_session))
    if indicator.promote_below_percent is not None and split.candidate.requests:
        limit = indicator.promote_below_percent / 100
        for bet, factor in zip(part.accept_rate_bets, eprocess.RATE_FACTORS, strict=True):
            log_bad, log_good = eprocess.log_rate_factors(limit=limit, bet_rate=factor * limit)
            growths.append((bet, (pooled * log_bad + (1 - pooled) * log_good) / per_session))
    # Slower than this, it would take more requests than any release sees.
    needed = [(rules.log_accept_limit - bet) / growth for bet, growth in growths if growth > 1e-9]
    return max(math.ceil(min(needed)), 1) if needed else None
