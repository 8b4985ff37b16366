"""The judge's e-processes over many runs at once, and how they agree with the judge's own."""

import numpy as np

from perf.judge.traffic import RAMP, Floats, SimulatedTraffic, traffic
from releases.judge import eprocess
from releases.judge.evidence import BadRequestCount, EvidenceIncrement, JudgeEvidence, SideCounts
from releases.judge.rules import IndicatorRules, JudgeRules


def log_reject(
    seen: SimulatedTraffic, *, tolerated: float, reserve: float = eprocess.RESERVE, per_session: int = 1
) -> Floats:
    """`IndicatorEvidence.log_reject` at every look; `reserve=0` is the plain mixture of arXiv 2205.14762."""
    runs, looks = seen.shape
    ratios = np.array(eprocess.reject_ratios(tolerated))
    bets = np.full((runs, ratios.size), np.log((1 - reserve) / ratios.size))
    bad = np.zeros(runs)
    path = np.empty((runs, looks))
    for look in range(looks):
        bets += _settlement(seen, look, null_ratio=tolerated, ratios=ratios) / per_session
        both = (seen.candidate[:, look] > 0) & (seen.stable[:, look] > 0)
        bad_after = bad + np.where(both, seen.candidate_bad[:, look] + seen.stable_bad[:, look], 0)
        held = reserve * eprocess.RESERVE_SPAN / (eprocess.RESERVE_SPAN + bad_after)
        released = held * (bad_after - bad) / (eprocess.RESERVE_SPAN + bad) / ratios.size
        with np.errstate(divide="ignore"):
            bets = np.logaddexp(bets, np.log(released)[:, None])
            path[:, look] = np.logaddexp(_log_sum(bets), np.log(held))
        bad = bad_after
    return path


def log_accept(seen: SimulatedTraffic, *, limit: float) -> Floats:
    """`IndicatorEvidence.log_accept` after every look, for the ratio claim alone and no outage."""
    ratios = np.array(eprocess.accept_ratios(limit))
    settled = np.stack(
        [_settlement(seen, look, null_ratio=limit, ratios=ratios) for look in range(seen.shape[1])], axis=1
    )
    return np.asarray(_log_sum(np.cumsum(settled, axis=1) - np.log(ratios.size)))


def disagreement(rng: np.random.Generator, runs: int = 5) -> float:
    """Largest difference between the vectorised e-values and the judge's own, in logarithms."""
    rules = JudgeRules(
        errors=IndicatorRules(roll_back_above_ratio=1.0, promote_below_ratio=2.0),
        slow=None,
    )
    seen = traffic(
        rng, runs=runs, requests_per_second=2, candidate_share=RAMP, candidate_bad=0.02, stable_bad=0.01
    )
    rejects, accepts = log_reject(seen, tolerated=1.0), log_accept(seen, limit=2.0)
    worst = 0.0
    for run in range(runs):
        evidence = JudgeEvidence.start(rules)
        for look in range(seen.shape[1]):
            sides = SideCounts(
                BadRequestCount(int(seen.candidate[run, look]), int(seen.candidate_bad[run, look])),
                BadRequestCount(int(seen.stable[run, look]), int(seen.stable_bad[run, look])),
            )
            evidence = evidence.after(EvidenceIncrement(60.0, {"errors": sides}), rules)
            errors = evidence.indicators["errors"]
            worst = max(
                worst,
                abs(errors.log_reject - rejects[run, look]),
                abs(errors.log_accept - accepts[run, look]),
            )
    return float(worst)


def _settlement(seen: SimulatedTraffic, look: int, *, null_ratio: float, ratios: Floats) -> Floats:
    a = seen.candidate[:, look, None].astype(float)
    b = seen.stable[:, look, None].astype(float)
    both = (a > 0) & (b > 0)
    log_d = -np.log1p((ratios - null_ratio) * a / np.where(both, null_ratio * a + b, 1.0))
    log_c = np.log(ratios / null_ratio) + log_d
    settled = seen.candidate_bad[:, look, None] * log_c + seen.stable_bad[:, look, None] * log_d
    return np.where(both, settled, 0.0)


def _log_sum(logs: Floats) -> Floats:
    return np.asarray(np.logaddexp.reduce(logs, axis=-1))
