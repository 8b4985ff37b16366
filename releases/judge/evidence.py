"""What the judge has seen of one release: small, frozen, stored as JSON between looks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from releases.judge import eprocess
from releases.judge.bets import settled_rate_bets, settled_ratio_bets
from releases.judge.rules import LATENCY, IndicatorName, IndicatorRules, JudgeRules

EVIDENCE_VERSION = 1

OUTAGE_SHARE = 0.25
OUTAGE_REQUESTS = 20
"""Above this share of bad answers, both sides together, in an increment of at least so many requests or in
the latest stretches, no ratio is certified: an outage that everybody suffers makes good and bad look alike.
Choosing by the total alone keeps the bets fair: given the total, they still are."""
LATE_BAD = 2
"""Bad answers among the candidate's latest requests that make a share; a single one is an accident."""


@dataclass(frozen=True, slots=True)
class BadRequestCount:
    """Requests, and how many of them were bad."""

    requests: int = 0
    bad: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.bad <= self.requests:
            raise ValueError(f"{self.bad} bad of {self.requests} requests is no tally")

    def __add__(self, other: "BadRequestCount") -> "BadRequestCount":
        return BadRequestCount(self.requests + other.requests, self.bad + other.bad)

    @property
    def share(self) -> float:
        """Share of bad requests, 0..1; 0 without requests."""
        return self.bad / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class SideCounts:
    candidate: BadRequestCount = BadRequestCount()
    stable: BadRequestCount = BadRequestCount()

    def __add__(self, other: "SideCounts") -> "SideCounts":
        return SideCounts(self.candidate + other.candidate, self.stable + other.stable)

    @property
    def both(self) -> BadRequestCount:
        return self.candidate + self.stable

    def to_list(self) -> list[int]:
        return [self.candidate.requests, self.candidate.bad, self.stable.requests, self.stable.bad]

    @classmethod
    def from_list(cls, numbers: list[int]) -> Self:
        candidate_requests, candidate_bad, stable_requests, stable_bad = numbers
        return cls(
            BadRequestCount(candidate_requests, candidate_bad), BadRequestCount(stable_requests, stable_bad)
        )


@dataclass(frozen=True, slots=True)
class EvidenceIncrement:
    """Answers of both sides in the same stretch of time, at one weight.

    An indicator that could not be counted is left out.
    """

    seconds: float
    indicators: Mapping[IndicatorName, SideCounts] = field(default_factory=dict)
    interrupted: bool = False
    """The counters started again in this stretch: nothing in it can be compared, so it says nothing."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"an increment lasts 0 seconds or more, not {self.seconds}")


@dataclass(frozen=True, slots=True)
class RecentRequests:
    """A stretch of the latest requests."""

    seconds: float
    sides: SideCounts


@dataclass(frozen=True, slots=True)
class IndicatorEvidence:
    """The e-processes of one indicator; every capital is a natural logarithm."""

    totals: SideCounts
    compared_bad: int
    """Bad events in increments where both sides had requests."""
    reject_bets: tuple[float, ...]
    accept_ratio_bets: tuple[float, ...]
    accept_rate_bets: tuple[float, ...]
    reject_peak: float = 0.0
    accept_peak: float = 0.0
    recent: tuple[RecentRequests, ...] = ()
    """The latest stretches, just long enough to hold `guarded_requests` of the candidate."""

    @classmethod
    def start(cls, rules: IndicatorRules) -> Self:
        ratio = rules.promote_below_ratio
        ratios = len(eprocess.accept_ratios(ratio)) if ratio is not None else 0
        rates = len(eprocess.RATE_FACTORS) if rules.promote_below_percent is not None else 0
        # Two claims share the capital evenly, so their e-values are averaged (see rules.py).
        claims = bool(ratios) + bool(rates)
        return cls(
            totals=SideCounts(),
            compared_bad=0,
            reject_bets=eprocess.opening_reject_bets(),
            accept_ratio_bets=(-math.log(claims * ratios),) * ratios if ratios else (),
            accept_rate_bets=(-math.log(claims * rates),) * rates if rates else (),
        )

    @property
    def log_reject(self) -> float:
        """Log e-value against "no worse than tolerated"."""
        return eprocess.log_sum_exp((*self.reject_bets, math.log(eprocess.reserve(self.compared_bad))))

    @property
    def log_accept(self) -> float:
        """Log e-value against "too bad to certify"; -inf when the indicator certifies nothing."""
        return eprocess.log_sum_exp((*self.accept_ratio_bets, *self.accept_rate_bets))

    @property
    def lately(self) -> RecentRequests:
        """The latest stretches as one."""
        return RecentRequests(
            math.fsum(stretch.seconds for stretch in self.recent),
            sum((stretch.sides for stretch in self.recent), SideCounts()),
        )

    def after(
        self,
        sides: SideCounts,
        *,
        seconds: float,
        rules: IndicatorRules,
        recent_requests: int,
        per_session: int = 1,
    ) -> Self:
        """The evidence with one more increment in it; `per_session` requests at most belong together."""
        after = replace(
            self,
            totals=self.totals + sides,
            recent=_recent_after(self.recent, RecentRequests(seconds, sides), requests=recent_requests),
        )
        if sides.candidate.requests and sides.stable.requests:
            after = after._with_comparison(sides, rules, per_session)
        if self.accept_rate_bets:
            after = replace(
                after,
                accept_rate_bets=settled_rate_bets(
                    self.accept_rate_bets, sides.candidate, rules, per_session=per_session
                ),
            )
        return replace(
            after,
            reject_peak=max(self.reject_peak, after.log_reject),
            accept_peak=max(self.accept_peak, after.log_accept),
        )

    def _with_comparison(self, sides: SideCounts, rules: IndicatorRules, per_session: int) -> Self:
        null_ratio = rules.roll_back_above_ratio
        bets = settled_ratio_bets(
            self.reject_bets,
            eprocess.reject_ratios(null_ratio),
            sides,
            null_ratio=null_ratio,
            per_session=per_session,
        )
        compared_bad = self.compared_bad + sides.both.bad
        bets = eprocess.after_reserve_entered(bets, bad_before=self.compared_bad, bad_after=compared_bad)
        accept_bets = self.accept_ratio_bets
        ratio = rules.promote_below_ratio
        if ratio is not None and not (rules.has_outages and self._outage(sides.both)):
            accept_bets = settled_ratio_bets(
                accept_bets,
                eprocess.accept_ratios(ratio),
                sides,
                null_ratio=ratio,
                per_session=per_session,
            )
        return replace(self, compared_bad=compared_bad, reject_bets=bets, accept_ratio_bets=accept_bets)

    def is_frequent(self, indicator: IndicatorRules, rules: JudgeRules) -> bool:
        """Whether enough of the candidate's answers are bad to roll it back, of all or of the latest."""
        least = indicator.roll_back_min_percent / 100
        # Hours of good answers must not hide what began a minute ago.
        lately = self.lately.sides.candidate
        return self.totals.candidate.share >= least or (
            lately.bad >= LATE_BAD * rules.requests_per_session and lately.share >= least
        )

    def in_outage(self, rules: IndicatorRules) -> bool:
        """Whether both sides together have failed of late: then what passed before says nothing of now."""
        if not rules.has_outages:
            return False
        lately = self.lately.sides.both
        return lately.requests >= OUTAGE_REQUESTS and lately.share > OUTAGE_SHARE

    def _outage(self, latest: BadRequestCount) -> bool:
        enough = latest.requests >= OUTAGE_REQUESTS
        return (enough and latest.share > OUTAGE_SHARE) or self.lately.sides.both.share > OUTAGE_SHARE

    def to_dict(self) -> dict[str, Any]:
        return {
            "totals": self.totals.to_list(),
            "compared_bad": self.compared_bad,
            "reject_bets": list(self.reject_bets),
            "accept_ratio_bets": list(self.accept_ratio_bets),
            "accept_rate_bets": list(self.accept_rate_bets),
            "reject_peak": self.reject_peak,
            "accept_peak": self.accept_peak,
            "recent": [[stretch.seconds, *stretch.sides.to_list()] for stretch in self.recent],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            totals=SideCounts.from_list(data["totals"]),
            compared_bad=data["compared_bad"],
            reject_bets=tuple(data["reject_bets"]),
            accept_ratio_bets=tuple(data["accept_ratio_bets"]),
            accept_rate_bets=tuple(data["accept_rate_bets"]),
            reject_peak=data["reject_peak"],
            accept_peak=data["accept_peak"],
            recent=tuple(
                RecentRequests(seconds, SideCounts.from_list(numbers)) for seconds, *numbers in data["recent"]
            ),
        )


@dataclass(frozen=True, slots=True)
class JudgeEvidence:
    """All that a verdict rests on."""

    bets: str
    """Fingerprint of the rules that the bets were made under."""
    indicators: Mapping[IndicatorName, IndicatorEvidence]
    seconds: float = 0.0
    looks: int = 0
    interruptions: int = 0
    """Increments lost because the gateway's counters started again."""
    slow_threshold_ms: float | None = None
    """Slower than this is slow; None until stable has shown its usual speed."""
    latency_thresholds_ms: Mapping[str, float] = field(default_factory=dict)
    """The same by route, as the workers count it, `ttft` and `tpot`."""
    mean_peak: float = -math.inf
    """The highest that `log_mean` has been."""

    @classmethod
    def start(cls, rules: JudgeRules) -> Self:
        return cls(
            bets=rules.fingerprint,
            indicators={name: IndicatorEvidence.start(indicator) for name, indicator in rules.judged.items()},
        )

    @property
    def thresholds_ms(self) -> dict[IndicatorName, float]:
        """Return the time above which an answer is slow, by indicator, as far as it is known."""
        found = {f"{LATENCY}{of}": one for of, one in self.latency_thresholds_ms.items()}
        return found if self.slow_threshold_ms is None else {"slow": self.slow_threshold_ms, **found}

    def log_mean(self, rules: JudgeRules) -> float:
        """Log of the mean of all e-values against the candidate. What is too rare to roll it back adds none,
        which leaves an e-value."""
        judged = rules.judged
        logs = [
            part.log_reject for name, part in self.indicators.items() if part.is_frequent(judged[name], rules)
        ]
        return eprocess.log_sum_exp(logs) - math.log(len(judged))

    def with_slow_threshold(self, milliseconds: float) -> Self:
        """The evidence with stable's usual speed, learnt from answers before those it will be used on.

        Raises ValueError when another threshold is in use: what was counted by it would mean something else.
        """
        if self.slow_threshold_ms is not None and self.slow_threshold_ms != milliseconds:
            raise ValueError(f"this release already calls slower than {self.slow_threshold_ms:g} ms slow")
        return replace(self, slow_threshold_ms=milliseconds)

    def after(self, increment: EvidenceIncrement, rules: JudgeRules) -> Self:
        """The evidence with one more increment in it.

        Raises ValueError when `rules` bet otherwise than those that this evidence was started with.
        """
        if rules.fingerprint != self.bets:
            raise ValueError(
                "the rules changed under this evidence; start it again with Evidence.start(rules)"
            )
        # Nothing seen is time gone by, no evidence: it lowers the rate that forecasts rest on.
        seen = {} if increment.interrupted else increment.indicators
        after = replace(
            self,
            indicators={
                name: evidence.after(
                    seen.get(name, SideCounts()),
                    seconds=increment.seconds,
                    rules=rules.judged[name],
                    recent_requests=rules.guarded_requests,
                    per_session=rules.requests_per_session,
                )
                for name, evidence in self.indicators.items()
            },
            seconds=self.seconds + increment.seconds,
            looks=self.looks + 1,
            interruptions=self.interruptions + increment.interrupted,
        )
        return replace(after, mean_peak=max(self.mean_peak, after.log_mean(rules)))

    def after_stretch(self, name: IndicatorName, sides: SideCounts, rules: JudgeRules) -> Self:
        """The evidence with a stretch of one indicator that others count, at their times and not the
        gateway's. In which order stretches come makes no difference to what the bets may win."""
        part = self.indicators[name].after(
            sides,
            seconds=0.0,
            rules=rules.judged[name],
            recent_requests=rules.guarded_requests,
            per_session=rules.requests_per_session,
        )
        after = replace(self, indicators={**self.indicators, name: part})
        return replace(after, mean_peak=max(self.mean_peak, after.log_mean(rules)))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` gives an equal object back."""
        return {
            "version": EVIDENCE_VERSION,
            "bets": self.bets,
            "indicators": {name: evidence.to_dict() for name, evidence in self.indicators.items()},
            "seconds": self.seconds,
            "looks": self.looks,
            "interruptions": self.interruptions,
            "slow_threshold_ms": self.slow_threshold_ms,
            "latency_thresholds_ms": dict(self.latency_thresholds_ms),
            "mean_peak": self.mean_peak if math.isfinite(self.mean_peak) else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError for evidence written by another version of the judge, or not by the judge."""
        if data.get("version") != EVIDENCE_VERSION:
            raise ValueError(
                f"this judge reads evidence of version {EVIDENCE_VERSION}, not {data.get('version')!r}"
            )
        try:
            return cls(
                bets=data["bets"],
                indicators={
                    name: IndicatorEvidence.from_dict(part) for name, part in data["indicators"].items()
                },
                seconds=data["seconds"],
                looks=data["looks"],
                interruptions=data["interruptions"],
                slow_threshold_ms=data["slow_threshold_ms"],
                latency_thresholds_ms=data.get("latency_thresholds_ms", {}),
                mean_peak=-math.inf if (peak := data.get("mean_peak")) is None else peak,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a judge's evidence: {error!r}") from error


def _recent_after(
    recent: tuple[RecentRequests, ...], latest: RecentRequests, *, requests: int
) -> tuple[RecentRequests, ...]:
    """The latest stretches that together hold at least `requests` of the candidate (or all there are).

    One without candidate requests is added to the one before it, so there are never more than `requests` + 1.
    """
    if recent and not latest.sides.candidate.requests:
        last = recent[-1]
        return (*recent[:-1], RecentRequests(last.seconds + latest.seconds, last.sides + latest.sides))
    stretches = [*recent, latest]
    held = sum(stretch.sides.candidate.requests for stretch in stretches)
    while held - stretches[0].sides.candidate.requests >= requests:
        held -= stretches.pop(0).sides.candidate.requests
    return tuple(stretches)
