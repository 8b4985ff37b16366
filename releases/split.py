"""Does the gateway split as told? What was routed, beside what chance allows. Pure."""

import math
from statistics import NormalDist

CONFIDENCE = 0.999
"""A right split is called wrong once in a thousand looks; a hold looks again before it gives up."""

EXACT_BELOW = 2_000


def interval_percent(requests: int, percent: float, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the range of the observed share, in percent, when each of `requests` > 0 is sent with that
    chance.

    The central interval: exact binomial quantiles for few requests, the normal limit for many.
    """
    share = percent / 100
    if share in (0.0, 1.0):
        return percent, percent
    tail = (1 - confidence) / 2
    if requests >= EXACT_BELOW:
        spread = NormalDist().inv_cdf(1 - tail) * math.sqrt(share * (1 - share) / requests) + 0.5 / requests
        return 100 * max(share - spread, 0.0), 100 * min(share + spread, 1.0)
    low, high = _quantiles(requests, share, tail)
    return 100 * low / requests, 100 * high / requests


def _quantiles(requests: int, share: float, tail: float) -> tuple[int, int]:
    """Smallest counts whose cumulative probability reaches `tail` and `1 - tail`."""
    odds = share / (1 - share)
    log_chance = requests * math.log1p(-share)
    cumulative, low = 0.0, None
    for count in range(requests + 1):
        cumulative += math.exp(log_chance)
        if low is None and cumulative >= tail:
            low = count
        if cumulative >= 1 - tail:
            return low or 0, count
        log_chance += math.log((requests - count) / (count + 1) * odds)
    return low or 0, requests
