"""The bets: fair under every hypothesis that they are made against, by exact enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binom, hypergeom

from releases.judge import eprocess
from releases.judge.evidence import BadRequestCount, IndicatorEvidence, SideCounts
from releases.judge.rules import IndicatorRules

ERRORS = IndicatorRules(roll_back_above_ratio=1.0, promote_below_ratio=2.0, promote_below_percent=20.0)
RATIO_ONLY = IndicatorRules(roll_back_above_ratio=1.5, promote_below_ratio=3.0)
RATE_ONLY = IndicatorRules(promote_below_ratio=None, promote_below_percent=10.0)

tallies = st.integers(0, 300).flatmap(lambda n: st.builds(BadRequestCount, st.just(n), st.integers(0, n)))
sides = st.builds(SideCounts, tallies, tallies)


def after(part: IndicatorEvidence, seen: SideCounts, rules: IndicatorRules) -> IndicatorEvidence:
    return part.after(seen, seconds=1.0, rules=rules, recent_requests=20)


def split(candidate: int, k: int, stable: int, j: int) -> SideCounts:
    return SideCounts(BadRequestCount(candidate, k), BadRequestCount(stable, j))


@pytest.mark.parametrize("rules", [ERRORS, RATIO_ONLY])
@pytest.mark.parametrize(("candidate", "stable"), [(5, 95), (50, 50), (30, 7)])
@pytest.mark.parametrize("bad", [1, 2, 5])
def test_a_bet_is_exactly_fair_at_the_tolerated_ratio(rules, candidate, stable, bad):
    ratio = rules.roll_back_above_ratio
    theta = ratio * candidate / (ratio * candidate + stable)
    start = IndicatorEvidence.start(rules)
    expected = math.fsum(
        binom.pmf(k, bad, theta)
        * math.exp(after(start, split(candidate, k, stable, bad - k), rules).log_reject)
        for k in range(bad + 1)
    )
    assert expected == pytest.approx(1.0, abs=1e-12)


def test_a_bet_stays_fair_over_increments_of_different_weight():
    weights = [(5, 95), (60, 40), (25, 75)]
    expected = 0.0
    for falls in itertools.product(range(4), repeat=3):
        part, chance = IndicatorEvidence.start(ERRORS), 1.0
        for (candidate, stable), k in zip(weights, falls, strict=True):
            chance *= binom.pmf(k, 3, candidate / (candidate + stable))
            part = after(part, split(candidate, k, stable, 3 - k), ERRORS)
        expected += chance * math.exp(part.log_reject)
    assert expected == pytest.approx(1.0, abs=1e-12)


def _mean_over_requests(rules, side, *, candidate, stable, p_candidate, p_stable) -> float:
    """E of the e-value `side` after one increment of independent requests."""
    start = IndicatorEvidence.start(rules)
    ks, js = np.arange(candidate + 1), np.arange(stable + 1)
    chances = np.outer(binom.pmf(ks, candidate, p_candidate), binom.pmf(js, stable, p_stable))
    values = [
        [
            math.exp(getattr(after(start, split(candidate, k, stable, j), rules), side))
            for j in range(stable + 1)
        ]
        for k in range(candidate + 1)
    ]
    return float(np.sum(chances * np.array(values)))


@pytest.mark.parametrize("p_stable", [0.0, 0.01, 0.1, 0.4, 0.65])
@pytest.mark.parametrize("part_of_tolerated", [0.3, 1.0])
@pytest.mark.parametrize("rules", [ERRORS, RATIO_ONLY])
def test_no_candidate_within_the_tolerated_ratio_gains_evidence_against_it_on_average(
    rules, p_stable, part_of_tolerated
):
    p_candidate = part_of_tolerated * rules.roll_back_above_ratio * p_stable
    mean = _mean_over_requests(
        rules, "log_reject", candidate=6, stable=12, p_candidate=p_candidate, p_stable=p_stable
    )
    assert mean <= 1.0 + 1e-12


@pytest.mark.parametrize(("candidate", "stable"), [(3, 6), (8, 16), (15, 10)])
@pytest.mark.parametrize("p_stable", [0.0, 0.02, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("times_worse", [1.0, 1.1])
def test_no_candidate_at_or_above_the_certified_ratio_gains_a_certificate_on_average(
    candidate, stable, p_stable, times_worse
):
    """The outage rule comes in here, too: leaving increments out by their total keeps it fair."""
    p_candidate = RATIO_ONLY.promote_below_ratio * p_stable * times_worse
    mean = _mean_over_requests(
        RATIO_ONLY,
        "log_accept",
        candidate=candidate,
        stable=stable,
        p_candidate=min(p_candidate, 1.0),
        p_stable=p_stable,
    )
    assert mean <= 1.0 + 1e-12


@pytest.mark.parametrize("bad", range(0, 21, 2))
def test_an_outage_of_any_size_on_both_sides_is_no_evidence_against_the_candidate(bad):
    candidate, stable = 7, 13
    start = IndicatorEvidence.start(ERRORS)
    mean = sum(
        hypergeom.pmf(k, candidate + stable, bad, candidate)
        * math.exp(after(start, split(candidate, k, stable, bad - k), ERRORS).log_reject)
        for k in range(max(0, bad - stable), min(bad, candidate) + 1)
    )
    assert mean <= 1.0 + 1e-12


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.9, 1.0])
def test_no_candidate_at_or_above_the_certified_rate_gains_a_certificate_on_average(rate):
    mean = _mean_over_requests(
        RATE_ONLY, "log_accept", candidate=12, stable=2, p_candidate=rate, p_stable=0.0
    )
    assert mean <= 1.0 + 1e-12


def test_two_claims_share_the_capital_so_that_being_bad_on_both_is_still_unprofitable():
    mean = _mean_over_requests(ERRORS, "log_accept", candidate=8, stable=16, p_candidate=0.2, p_stable=0.1)
    assert IndicatorEvidence.start(ERRORS).log_accept == pytest.approx(0.0, abs=1e-12)
    assert mean <= 1.0 + 1e-12


@pytest.mark.parametrize(("k", "j"), [(0, 9), (3, 4), (9, 0)])
def test_the_mixture_equals_the_binomial_likelihood_ratios_of_scipy(k, j):
    candidate, stable, n = 40, 160, k + j
    part = after(IndicatorEvidence.start(ERRORS), split(candidate, k, stable, j), ERRORS)
    weights = candidate / (candidate + stable)
    ratios = np.geomspace(1.2, 30, 12)
    thetas = ratios * candidate / (ratios * candidate + stable)
    log_ratios = binom.logpmf(k, n, thetas) - binom.logpmf(k, n, weights)
    at_once = logsumexp(log_ratios) + math.log(0.9 / 12)
    assert part.log_reject == pytest.approx(np.logaddexp(at_once, math.log(0.1)), rel=1e-12)


@given(sides, st.integers(0, 5))
def test_a_stretch_without_requests_changes_no_evidence(seen, silent):
    part = after(IndicatorEvidence.start(ERRORS), seen, ERRORS)
    later = part
    for _ in range(silent):
        later = after(later, SideCounts(), ERRORS)
    assert (later.log_reject, later.log_accept, later.totals) == (
        part.log_reject,
        part.log_accept,
        part.totals,
    )


@given(tallies)
def test_one_side_alone_is_no_evidence_of_a_ratio(tally):
    start = IndicatorEvidence.start(RATIO_ONLY)
    for seen in (SideCounts(candidate=tally), SideCounts(stable=tally)):
        part = after(start, seen, RATIO_ONLY)
        assert part.log_reject == pytest.approx(0.0, abs=1e-12)
        assert part.log_accept == pytest.approx(0.0, abs=1e-12)


quiet = st.integers(0, 200).flatmap(lambda n: st.builds(BadRequestCount, st.just(n), st.integers(0, n // 5)))


@given(st.lists(st.builds(SideCounts, quiet, quiet), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_quiet_increments_does_not_change_the_certificate_or_the_totals(increments, random):
    shuffled = list(increments)
    random.shuffle(shuffled)
    ends = []
    for order in (increments, shuffled):
        part = IndicatorEvidence.start(ERRORS)
        for seen in order:
            part = after(part, seen, ERRORS)
        ends.append(part)
    assert ends[0].totals == ends[1].totals
    assert ends[0].compared_bad == ends[1].compared_bad
    assert ends[0].log_accept == pytest.approx(ends[1].log_accept, rel=1e-9, abs=1e-9)


@given(st.lists(st.builds(SideCounts, quiet, quiet), max_size=5))
def test_capital_is_never_created_beside_the_bets(increments):
    """The reserve moves into the bets, it is not added to them: without bad events nothing is won."""
    part = IndicatorEvidence.start(ERRORS)
    for seen in increments:
        part = after(
            part,
            SideCounts(BadRequestCount(seen.candidate.requests), BadRequestCount(seen.stable.requests)),
            ERRORS,
        )
    assert part.log_reject == pytest.approx(0.0, abs=1e-12)


@given(st.lists(sides, max_size=8))
def test_evidence_against_the_candidate_never_falls_below_the_reserve(increments):
    part = IndicatorEvidence.start(ERRORS)
    for seen in increments:
        part = after(part, seen, ERRORS)
        assert part.log_reject >= math.log(eprocess.reserve(part.compared_bad)) - 1e-12
        assert part.reject_peak >= part.log_reject
        assert part.accept_peak >= part.log_accept


def test_a_billion_requests_a_look_neither_overflow_nor_lose_the_verdict():
    part = IndicatorEvidence.start(ERRORS)
    for _ in range(50):
        part = after(part, split(10**9, 2 * 10**7, 9 * 10**9, 10**7), ERRORS)
    assert math.isfinite(part.log_reject)
    assert part.log_reject > 1e6
    assert math.isfinite(part.log_accept)


def test_the_reserve_enters_the_bets_completely_and_no_more():
    bets, before = eprocess.opening_reject_bets(), 0
    for bad in (1, 7, 200, 10_000, 10**9):
        bets = eprocess.after_reserve_entered(bets, bad_before=before, bad_after=bad)
        total = math.exp(eprocess.log_sum_exp(bets)) + eprocess.reserve(bad)
        assert total == pytest.approx(1.0, abs=1e-12)
        before = bad
