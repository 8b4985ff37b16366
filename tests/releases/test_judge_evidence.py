"""Evidence as it is kept between looks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.judge.evidence import BadRequestCount, EvidenceIncrement, JudgeEvidence, SideCounts
from releases.judge.rules import IndicatorRules, JudgeRules
from tests.releases.conftest import Trial

tallies = st.integers(0, 10**6).flatmap(lambda n: st.builds(BadRequestCount, st.just(n), st.integers(0, n)))
sides = st.builds(SideCounts, tallies, tallies)
increments = st.builds(
    EvidenceIncrement,
    st.floats(0, 3600),
    st.dictionaries(st.sampled_from(["errors", "slow"]), sides),
    st.booleans(),
)


@given(st.lists(increments, max_size=6), st.none() | st.floats(1, 1e5))
def test_evidence_survives_being_written_as_json(seen, threshold):
    rules = JudgeRules()
    evidence = JudgeEvidence.start(rules)
    if threshold is not None:
        evidence = evidence.with_slow_threshold(threshold)
    for increment in seen:
        evidence = evidence.after(increment, rules)
    assert JudgeEvidence.from_dict(json.loads(json.dumps(evidence.to_dict(), allow_nan=False))) == evidence


def test_evidence_read_back_goes_on_as_if_never_written(trial: Trial):
    trial.see(errors=(20, 1, 80, 2), slow=(20, 3, 80, 4), times=5)
    read = JudgeEvidence.from_dict(json.loads(json.dumps(trial.evidence.to_dict())))
    more = EvidenceIncrement(5.0, {"errors": SideCounts(BadRequestCount(10, 2), BadRequestCount(50, 1))})
    assert read.after(more, trial.rules) == trial.evidence.after(more, trial.rules)


@pytest.mark.parametrize(
    "document", [{}, {"version": 2}, {"version": 1}, {"version": 1, "bets": "x", "indicators": 3}]
)
def test_evidence_of_another_make_is_refused(document):
    with pytest.raises(ValueError, match="evidence"):
        JudgeEvidence.from_dict(document)


def test_evidence_is_not_mixed_with_rules_that_bet_otherwise(trial: Trial):
    other = JudgeRules(errors=IndicatorRules(promote_below_ratio=3.0))
    with pytest.raises(ValueError, match="rules changed"):
        trial.evidence.after(EvidenceIncrement(1.0), other)


def test_rules_may_become_stricter_about_certainty_without_losing_the_evidence(trial: Trial):
    stricter = trial.rules.model_copy(update={"false_promote_percent": 1.0})
    assert trial.evidence.after(EvidenceIncrement(1.0), stricter).looks == 1


def test_the_meaning_of_slow_is_fixed_once_known(trial: Trial):
    assert trial.evidence.with_slow_threshold(450.0) == trial.evidence
    with pytest.raises(ValueError, match="450 ms"):
        trial.evidence.with_slow_threshold(500.0)


def test_an_interrupted_stretch_is_counted_as_lost_and_says_nothing(trial: Trial):
    trial.see(errors=(20, 1, 80, 1))
    before = trial.evidence
    lost = EvidenceIncrement(
        5.0, {"errors": SideCounts(BadRequestCount(50, 50), BadRequestCount(50, 0))}, interrupted=True
    )
    after = before.after(lost, trial.rules)
    assert after.interruptions == 1
    assert after.indicators["errors"].totals == before.indicators["errors"].totals
    assert after.indicators["errors"].log_reject == before.indicators["errors"].log_reject


@given(st.lists(sides, max_size=60))
def test_the_latest_stretches_hold_just_enough_requests(seen):
    rules = JudgeRules()
    evidence = JudgeEvidence.start(rules)
    for both in seen:
        evidence = evidence.after(EvidenceIncrement(1.0, {"errors": both}), rules)
    recent = evidence.indicators["errors"].recent
    asked = rules.abort_min_requests
    assert len(recent) <= asked + 1
    held = sum(stretch.sides.candidate.requests for stretch in recent)
    answered = sum(both.candidate.requests for both in seen)
    assert held >= min(asked, answered)
    if len(recent) > 1:
        assert held - recent[0].sides.candidate.requests < asked


def test_a_long_wait_with_one_sided_traffic_does_not_make_evidence_grow(trial: Trial):
    trial.see(errors=(1, 0, 10, 0), times=30)
    size = len(json.dumps(trial.evidence.to_dict()))
    trial.see(errors=(0, 0, 10, 0), slow=(0, 0, 10, 1), times=500)
    assert len(json.dumps(trial.evidence.to_dict())) < size + 200


@pytest.mark.parametrize(("requests", "bad"), [(-1, 0), (3, 4), (3, -1)])
def test_impossible_tallies_are_refused(requests, bad):
    with pytest.raises(ValueError, match="no tally"):
        BadRequestCount(requests, bad)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_impossible_stretches_are_refused(seconds):
    with pytest.raises(ValueError, match="0 seconds or more"):
        EvidenceIncrement(seconds)


def test_rules_that_could_earn_both_verdicts_are_refused():
    with pytest.raises(ValueError, match="must be above"):
        IndicatorRules(roll_back_above_ratio=2.0, promote_below_ratio=2.0)


def test_rules_that_certify_nothing_are_refused():
    nothing = IndicatorRules(promote_below_ratio=None, promote_below_percent=None)
    with pytest.raises(ValueError, match="at least one"):
        JudgeRules(errors=nothing, slow=None)
    assert not nothing.certifies


def test_one_indicator_alone_needs_as_many_times_the_evidence_as_there_are_indicators():
    two, one = JudgeRules(), JudgeRules(slow=None)
    assert two.log_mean_limit == one.log_mean_limit == one.log_reject_limit
    assert two.log_reject_limit == pytest.approx(one.log_reject_limit + 0.693147, abs=1e-6)
    assert two.log_accept_limit == one.log_accept_limit
