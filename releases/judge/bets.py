"""Bets of the judge after a stretch of requests."""

from typing import TYPE_CHECKING

from releases.judge import eprocess
from releases.judge.rules import IndicatorRules

if TYPE_CHECKING:
    from releases.judge.evidence import BadRequestCount, SideCounts


def settled_ratio_bets(
    bets: tuple[float, ...],
    ratios: tuple[float, ...],
    sides: "SideCounts",
    *,
    null_ratio: float,
    per_session: int,
) -> tuple[float, ...]:
    """Return the logarithms of bets on ratios after a stretch of both sides."""
    settled = []
    for bet, ratio in zip(bets, ratios, strict=True):
        log_c, log_d = eprocess.log_factors(
            candidate=sides.candidate.requests,
            stable=sides.stable.requests,
            null_ratio=null_ratio,
            bet_ratio=ratio,
        )
        settled.append(bet + (sides.candidate.bad * log_c + sides.stable.bad * log_d) / per_session)
    return tuple(settled)


def settled_rate_bets(
    bets: tuple[float, ...], candidate: "BadRequestCount", rules: IndicatorRules, *, per_session: int
) -> tuple[float, ...]:
    """Return the logarithms of bets on a rate below the limit after a stretch of the candidate."""
    if rules.promote_below_percent is None:
        return bets
    limit = rules.promote_below_percent / 100
    settled = []
    for bet, factor in zip(bets, eprocess.RATE_FACTORS, strict=True):
        log_bad, log_good = eprocess.log_rate_factors(limit=limit, bet_rate=factor * limit)
        good = candidate.requests - candidate.bad
        settled.append(bet + (candidate.bad * log_bad + good * log_good) / per_session)
    return tuple(settled)
