"""Whether requests were split as asked. Pure."""

import math
from functools import cache

DOUBT = 0.001
"""How often a right split may be called wrong."""


def is_plausible(
    candidate_requests: int, total: int, *, candidate_percent: int, doubt: float = DOUBT
) -> bool:
    """Whether so many of `total` requests may well have gone to a candidate that is to get
    `candidate_percent`.

    The two-sided exact binomial test: false when so few, or so many, come about with less than `doubt / 2`.
    True while nothing speaks against it, so also without any request. Raises ValueError for impossible
    counts.
    """
    if not 0 <= candidate_requests <= total:
        raise ValueError(f"{candidate_requests} of {total} requests cannot be.")
    if not 0 <= candidate_percent <= 100:
        raise ValueError(f"{candidate_percent} % is no share.")
    low, high = interval(total, candidate_percent, doubt)
    return low <= candidate_requests <= high


@cache
def interval(total: int, candidate_percent: int, doubt: float = DOUBT) -> tuple[int, int]:
    """Fewest and most candidate requests of `total` that do not speak against the share."""
    share = candidate_percent / 100
    if share in (0, 1) or not total:
        exact = round(total * share)
        return exact, exact
    return _fewest(total, share, doubt / 2), total - _fewest(total, 1 - share, doubt / 2)


def _fewest(total: int, share: float, tail: float) -> int:
    """The least k with P(X <= k) >= tail, for X of `total` draws with chance `share`."""
    # Ten standard deviations below the mean nothing is left to add up.
    mean, deviation = total * share, math.sqrt(total * share * (1 - share))
    first = max(0, math.floor(mean - 10 * deviation - 10))
    below = 0.0
    for k in range(first, total + 1):
        below += math.exp(
            math.lgamma(total + 1)
            - math.lgamma(k + 1)
            - math.lgamma(total - k + 1)
            + k * math.log(share)
            + (total - k) * math.log1p(-share)
        )
        if below >= tail:
            return k
    return total
