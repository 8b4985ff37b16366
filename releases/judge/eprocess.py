"""E-processes for the ratio of two rates of bad events: valid at every look, under changing weights.

Of `n_c` candidate and `n_b` stable requests in one increment `k` and `j` were bad. A bet on rate ratio `r`
against the hypothesis `r0` multiplies its capital by

    (theta_r / theta_r0) ** k  *  ((1 - theta_r) / (1 - theta_r0)) ** j,    theta_r = r n_c / (r n_c + n_b),

which for r0 = 1 is the test of Lindon, Sanden and Shirikian, "Rapid regression detection in software
deployments through sequential testing" (arXiv 2205.14762): theta_1 is the chance w' that a bad event is the
candidate's.

Such a bet cannot win on average. Write C and D for the two factors: theta_r0 C + (1 - theta_r0) D = 1. For
requests that are bad with probability p_c and p_b, whatever happened before,

    E[C**k D**j] = (1 + p_c (C - 1))**n_c (1 + p_b (D - 1))**n_b
                <= exp(n_c p_c (C - 1) + n_b p_b (D - 1))  <=  1

if p_c <= r0 p_b and r > r0 (evidence against the candidate, C > 1 > D), and also if p_c >= r0 p_b and r < r0
(evidence for it, C < 1 < D). p_b may wander and the weights may change between increments. For r0 = 1 not
even independence of the requests is needed: the gateway deals them out at random, so given that m of n are
bad, k is hypergeometric, and the mean of a convex function such as C**k D**(m-k) is then at most that under
the binomial (Hoeffding 1963, Theorem 4). An outage that hits both sides blames nobody.

Where the requests of a session stay on one side, at most m of them, the bets are raised to the power 1 / m. A
session of the candidate with k bad requests, k <= m, then multiplies the capital by C**(k/m). As C**x is
convex, that is at most 1 + (k/m) (C - 1): only E[k] counts, however its requests hang together. So with
sessions that are alike on both sides the first bound above holds again, with n_c p_c / m and n_b p_b / m in
the exponent, and its sign is as before. For a bet on a rate, Hoelder's inequality gives the same. Requests of
one session that fall into several increments are covered when it ends; until then a session of stable's that
goes wrong has cost the capital less than it will, by a part of one bad answer (perf/judge/sessions.py). Where
the gateway deals out every request by itself, m is 1 whatever belongs together: see above.

By Ville's inequality capital that starts at 1 ever reaches x with probability at most 1 / x. So it may be
looked at after every increment, and once it has crossed its limit it has crossed it for good (Howard, Ramdas
et al., arXiv 1810.08240 and 1906.09712). A mixture of bets is a bet.
"""

import math
from collections.abc import Sequence

REJECT_FACTORS = tuple(1.2 * (30 / 1.2) ** (i / 11) for i in range(12))
"""Rate ratios bet on, 1.2 to 30 times the tolerated one, evenly on the log scale."""

RESERVE = 0.1
RESERVE_SPAN = 100.0
"""A tenth of the capital is not bet at once: it enters the bets as bad events go by, half of it by the first
100. A candidate that turns bad after hours of good behaviour finds fresh bets instead of bets that hours have
ruined (with 20 requests/s, a fifth of them the candidate's, and a tripled slow share after four good hours: 2
minutes instead of 15). It costs a tenth of the evidence early on."""

RATE_FACTORS = (0.05, 0.25)
"""Rates bet on against "the candidate's rate is at least p", as parts of p."""


def log_sum_exp(logs: Sequence[float]) -> float:
    """Return log(sum(exp(x))) without overflow; -inf for no values."""
    top = max(logs, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))


def log_factors(*, candidate: int, stable: int, null_ratio: float, bet_ratio: float) -> tuple[float, float]:
    """Logs of C and D: what a bad candidate and a bad stable request do to the bet; 0 unless both sides had
    requests."""
    if not candidate or not stable:
        return 0.0, 0.0
    log_d = -math.log1p((bet_ratio - null_ratio) * candidate / (null_ratio * candidate + stable))
    return math.log(bet_ratio / null_ratio) + log_d, log_d


def reject_ratios(null_ratio: float) -> tuple[float, ...]:
    return tuple(null_ratio * factor for factor in REJECT_FACTORS)


def accept_ratios(null_ratio: float) -> tuple[float, ...]:
    """An equal candidate, and one that is a little worse but well below the limit."""
    return 1.0, null_ratio**0.4


def opening_reject_bets() -> tuple[float, ...]:
    return (math.log((1 - RESERVE) / len(REJECT_FACTORS)),) * len(REJECT_FACTORS)


def reserve(bad: int) -> float:
    """Capital not yet bet after `bad` bad events."""
    return RESERVE * RESERVE_SPAN / (RESERVE_SPAN + bad)


def after_reserve_entered(bets: Sequence[float], *, bad_before: int, bad_after: int) -> tuple[float, ...]:
    """The bets with their share of the reserve that these bad events release; the total stays what it was.

    It is placed after the increment was settled, so the next increment meets bets that knew nothing of it.
    """
    # reserve(before) - reserve(after) in closed form: the plain difference loses its digits in long releases.
    released = RESERVE * RESERVE_SPAN * (bad_after - bad_before)
    released /= (RESERVE_SPAN + bad_before) * (RESERVE_SPAN + bad_after)
    if released <= 0.0:
        return tuple(bets)
    share = math.log(released / len(bets))
    return tuple(log_sum_exp((bet, share)) for bet in bets)


def log_rate_factors(*, limit: float, bet_rate: float) -> tuple[float, float]:
    """Logs of what a bad and a good candidate request do to a bet on `bet_rate` against ">= `limit`"."""
    return math.log(bet_rate / limit), math.log1p(-bet_rate) - math.log1p(-limit)
