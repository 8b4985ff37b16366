"""From evidence to a verdict."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from releases.judge import words
from releases.judge.evidence import IndicatorEvidence, JudgeEvidence
from releases.judge.progress import (
    IndicatorProgress,
    indicator_progress,
    mean_progress,
    requests_to_certify,
    seconds_for,
)
from releases.judge.rules import IndicatorName, IndicatorRules, JudgeRules
from releases.messages import ReleaseMessage

DOUBT = 0.5
"""A certificate does not count while the evidence against the candidate is this far towards rolling back."""


class JudgeDecision(StrEnum):
    PROMOTE = "promote"
    ROLL_BACK = "roll_back"
    INSUFFICIENT = "insufficient"


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    decision: JudgeDecision
    tell: Callable[[], ReleaseMessage] = field(compare=False, repr=False)
    """Most verdicts are never told."""
    culprit: IndicatorName | None
    """The indicator that rolls the candidate back."""
    indicators: tuple[IndicatorProgress, ...]
    requests_to_certify: int | None
    """Candidate requests until all is certified, if it is as good as stable; None when that is never."""
    seconds_to_certify: float | None
    """The same at the candidate's latest rate of requests; None, too, when it has had none."""
    reject_progress: float
    """0..1, of the way (in logarithms) of the mean of all e-values to rolling back."""

    @property
    def message(self) -> ReleaseMessage:
        """Why it is so."""
        return self.tell()

    @property
    def reason(self) -> str:
        """Say it in the language of the moment: one verdict may be told to several readers."""
        return str(self.message)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for the release's page and REST."""
        seconds = self.seconds_to_certify
        return {
            "decision": self.decision.value,
            "reason": self.reason,
            "culprit": self.culprit,
            "reject_progress": round(self.reject_progress, 4),
            "indicators": {progress.name: progress.to_dict() for progress in self.indicators},
            "requests_to_certify": self.requests_to_certify,
            "seconds_to_certify": None if seconds is None else round(seconds, 1),
        }


def verdict(evidence: JudgeEvidence, rules: JudgeRules) -> JudgeVerdict:
    """Return what the evidence allows. Rolling back outranks promoting; no data is never a failure.

    Raises ValueError when the evidence was gathered under rules that bet otherwise.
    """
    if evidence.bets != rules.fingerprint:
        raise ValueError("this evidence was gathered under other rules")
    parts = evidence.indicators
    told = tuple(indicator_progress(name, part, rules) for name, part in parts.items())
    requests = requests_to_certify(evidence, rules, told)

    def decided(
        decision: JudgeDecision, tell: Callable[[], ReleaseMessage], culprit: IndicatorName | None = None
    ) -> JudgeVerdict:
        seconds = seconds_for(evidence, requests)
        return JudgeVerdict(decision, tell, culprit, told, requests, seconds, mean_progress(evidence, rules))

    if _must_abort(parts["errors"], rules):
        return decided(JudgeDecision.ROLL_BACK, partial(words.abort_reason, evidence, rules), "errors")
    guilty = [name for name, part in parts.items() if _is_guilty(part, rules.judged[name], rules)]
    if guilty or evidence.mean_peak >= rules.log_mean_limit:
        worst = max(guilty or parts, key=lambda name: parts[name].reject_peak)
        tell = words.roll_back_reason if guilty else words.roll_back_together_reason
        return decided(JudgeDecision.ROLL_BACK, partial(tell, worst, evidence, rules), worst)
    enough = parts["errors"].totals.candidate.requests >= rules.least_requests
    if not (enough and all(progress.certified for progress in told)):
        tell = partial(words.insufficient_reason, evidence, rules, told, requests=requests)
        return decided(JudgeDecision.INSUFFICIENT, tell)
    if suffering := [progress.name for progress in told if progress.in_outage]:
        if "errors" in suffering:
            return decided(JudgeDecision.INSUFFICIENT, partial(words.outage_reason, evidence))
        return decided(JudgeDecision.INSUFFICIENT, partial(words.slowness_reason, suffering[0], evidence))
    doubtful = [progress for progress in told if progress.reject_progress >= DOUBT]
    if doubtful:
        return decided(JudgeDecision.INSUFFICIENT, partial(words.doubt_reason, doubtful[0], evidence))
    return decided(JudgeDecision.PROMOTE, partial(words.promote_reason, evidence, rules))


def _must_abort(errors: IndicatorEvidence, rules: JudgeRules) -> bool:
    """The absolute guard. It waits for no comparison, but an outage that stable shares blames nobody."""
    lately = errors.lately.sides
    return (
        lately.candidate.requests >= rules.guarded_requests
        and lately.candidate.share > rules.abort_above_percent / 100
        and lately.stable.share <= lately.candidate.share / 2
    )


def _is_guilty(part: IndicatorEvidence, indicator: IndicatorRules, rules: JudgeRules) -> bool:
    """Whether the indicator alone brings the mean to its limit, or did before it was frequent enough."""
    return part.reject_peak >= rules.log_reject_limit and part.is_frequent(indicator, rules)
