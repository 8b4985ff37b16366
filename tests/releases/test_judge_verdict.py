"""What the judge decides, and how it tells an approver."""

import math

import pytest

from releases.judge.evidence import BadRequestCount, JudgeEvidence, SideCounts
from releases.judge.rules import IndicatorRules, JudgeRules
from releases.judge.verdict import JudgeDecision, verdict
from tests.releases.conftest import Trial


def judged(trial: Trial):
    return verdict(trial.evidence, trial.rules)


def certified(rules: JudgeRules | None = None) -> Trial:
    trial = Trial(rules or JudgeRules())
    return trial.see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), times=60)


def test_no_data_is_never_a_failure(trial: Trial):
    trial.see(times=1000, seconds=60.0)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert answer.reason == "Inconclusive: the candidate has answered no request yet."
    assert answer.seconds_to_certify is None


def test_stable_alone_is_never_a_failure(trial: Trial):
    trial.see(errors=(0, 0, 1000, 500), slow=(0, 0, 1000, 500), times=100)
    assert judged(trial).decision is JudgeDecision.INSUFFICIENT


def test_a_candidate_that_errs_more_is_rolled_back_with_the_reason_in_words(trial: Trial):
    trial.see(errors=(402, 31, 3600, 4))
    answer = judged(trial)
    assert answer.decision is JudgeDecision.ROLL_BACK
    assert answer.culprit == "errors"
    assert answer.reason == (
        "Candidate 5xx: 31 / 402 (7.7 %); stable 4 / 3,600 (0.1 %). Rolled back: "
        "p < 1 in a billion if the candidate's rate were equal to stable's."
    )


def test_a_candidate_is_rolled_back_as_soon_as_the_chance_is_below_its_share_of_alpha():
    trial = Trial(JudgeRules())
    while judged(trial).decision is JudgeDecision.INSUFFICIENT:
        trial.see(errors=(100, 2, 100, 0))
    assert trial.evidence.indicators["errors"].reject_peak >= trial.rules.log_reject_limit
    assert judged(trial).reason == (
        "Candidate 5xx: 8 / 400 (2.0 %); stable 0 / 400 (0 %). Rolled back: "
        "p < 1.4 % if the candidate's rate were equal to stable's."
    )


def test_indicators_that_all_say_the_same_roll_back_before_one_alone_would():
    trial = Trial(JudgeRules())
    while judged(trial).decision is JudgeDecision.INSUFFICIENT:
        trial.see(errors=(100, 3, 100, 1), slow=(100, 9, 100, 3))
    answer, evidence = judged(trial), trial.evidence
    assert evidence.mean_peak >= trial.rules.log_mean_limit == pytest.approx(math.log(20))
    assert all(one.reject_peak < trial.rules.log_reject_limit for one in evidence.indicators.values())
    assert (answer.culprit, answer.reject_progress) == ("slow", 1.0)
    assert answer.reason.endswith("none of the 2 indicators were above its limit (mean of their e-values).")
    assert JudgeEvidence.from_dict(evidence.to_dict()) == evidence


def test_what_is_too_rare_to_roll_back_adds_nothing_to_the_mean():
    least = JudgeRules().errors.model_copy(update={"roll_back_min_percent": 20.0})
    trial = Trial(JudgeRules(errors=least))
    trial.see(errors=(1000, 60, 1000, 1), slow=(1000, 50, 1000, 50), times=3)
    assert trial.evidence.indicators["errors"].reject_peak > trial.rules.log_reject_limit
    assert judged(trial).decision is JudgeDecision.INSUFFICIENT


def test_a_slower_candidate_is_rolled_back_by_stable_s_own_speed(trial: Trial):
    trial.see(errors=(50, 0, 200, 0), slow=(50, 20, 200, 10), times=4)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.ROLL_BACK
    assert answer.culprit == "slow"
    assert "slower than 450 ms: 80 / 200 (40.0 %); stable 40 / 800 (5.0 %)" in answer.reason
    assert "if the candidate's rate were at most 1.5 times stable's" in answer.reason


def test_a_candidate_a_little_slower_is_not_rolled_back_by_patience_alone(trial: Trial):
    trial.see(errors=(100, 0, 400, 0), slow=(100, 7, 400, 20), times=500)
    assert judged(trial).decision is not JudgeDecision.ROLL_BACK


def test_an_equal_candidate_is_certified_on_both_indicators():
    answer = judged(certified())
    assert answer.decision is JudgeDecision.PROMOTE
    assert answer.requests_to_certify == 0
    assert answer.reason == (
        "Candidate 5xx: 0 / 1,200 (0 %); stable 0 / 4,800 (0 %). Candidate slower than 450 ms: 60 / 1,200 "
        "(5.0 %); stable 240 / 4,800 (5.0 %). Passed: 5xx below 2 times stable's or below 1 %, slow "
        "requests below 2 times stable's; the chance of passing a worse candidate is under 10 %."
    )


def test_errors_without_a_single_error_are_certified_by_their_absolute_rate():
    trial = Trial(JudgeRules(slow=None))
    while judged(trial).decision is JudgeDecision.INSUFFICIENT:
        trial.see(errors=(10, 0, 40, 0))
    assert trial.evidence.indicators["errors"].totals.candidate.requests == 340


def test_one_uncertified_indicator_withholds_the_promotion(trial: Trial):
    trial.see(errors=(20, 0, 80, 0), slow=(20, 2, 80, 4), times=60)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert {p.name: p.certified for p in answer.indicators} == {"errors": True, "slow": False}


def test_while_slow_cannot_be_told_nothing_is_promoted():
    trial = Trial(JudgeRules(), slow_threshold_ms=None)
    trial.see(errors=(20, 0, 80, 0), times=100)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert answer.reason.endswith("Stable has answered too few requests to know its usual latency.")


def test_nothing_is_promoted_below_the_least_number_of_requests():
    rules = JudgeRules(min_requests=5000)
    answer = judged(certified(rules))
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert answer.requests_to_certify == 3800
    assert "1,200 candidate requests; at least 5,000 are required." in answer.reason


def test_a_certificate_stays_when_the_evidence_for_it_ebbs():
    trial = certified()
    trial.see(errors=(20, 0, 80, 0), slow=(20, 2, 80, 4), times=20)
    slow = trial.evidence.indicators["slow"]
    assert slow.log_accept < slow.accept_peak
    assert judged(trial).decision is JudgeDecision.PROMOTE


def test_a_certificate_does_not_count_while_the_candidate_is_under_suspicion():
    trial = certified()
    while judged(trial).decision is JudgeDecision.PROMOTE:
        trial.see(errors=(20, 1, 80, 0))
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert "Passed earlier, but there is now" in answer.reason


def test_rolling_back_outranks_an_earlier_certificate_however_late():
    trial = certified()
    trial.see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), times=2000)
    assert judged(trial).decision is JudgeDecision.PROMOTE
    looks = 0
    while judged(trial).decision is not JudgeDecision.ROLL_BACK:
        trial.see(errors=(20, 2, 80, 0), slow=(20, 1, 80, 4))
        looks += 1
    assert looks <= 10
    assert "Of the candidate's latest 20 requests: 2." in judged(trial).reason


def test_once_crossed_the_limit_stays_crossed(trial: Trial):
    trial.see(errors=(100, 10, 400, 0))
    assert judged(trial).decision is JudgeDecision.ROLL_BACK
    trial.see(errors=(100, 0, 400, 40), times=20)
    assert trial.evidence.indicators["errors"].log_reject < 0
    assert judged(trial).decision is JudgeDecision.ROLL_BACK


def test_a_candidate_as_slow_as_a_saturated_stable_does_not_pass(trial: Trial):
    trial.see(errors=(200, 0, 800, 0), slow=(200, 6, 800, 40), times=100)
    assert judged(trial).decision is JudgeDecision.PROMOTE
    trial.see(errors=(200, 0, 800, 0), slow=(200, 104, 800, 504), times=3)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert answer.reason.startswith("Slow requests: candidate 52 %, stable 63 %. Stable is slow itself")


def test_a_shared_outage_blames_nobody_and_certifies_nobody(trial: Trial):
    trial.see(errors=(20, 19, 80, 76), slow=(20, 19, 80, 76), times=50)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert all(progress.accept_progress == 0 for progress in answer.indicators)


def test_what_has_passed_does_not_pass_while_both_sides_fail():
    trial = certified()
    assert judged(trial).decision is JudgeDecision.PROMOTE
    trial.see(errors=(20, 18, 80, 72), times=3)
    answer = judged(trial)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert "fail now" in answer.reason
    assert [progress.in_outage for progress in answer.indicators] == [True, False]
    trial.see(errors=(20, 0, 80, 0), times=3)
    assert judged(trial).decision is JudgeDecision.PROMOTE


def test_the_guard_aborts_when_most_of_the_latest_answers_are_errors():
    trial = certified()
    trial.see(errors=(10, 10, 40, 0), times=3)
    lone = Trial(JudgeRules())
    lone.see(errors=(20, 11, 0, 0))
    for seen in (trial, lone):
        answer = judged(seen)
        assert answer.decision is JudgeDecision.ROLL_BACK
        assert "Rolled back at once, as more than 50 % failed" in answer.reason


def test_the_guard_waits_for_its_least_number_of_requests():
    trial = Trial(JudgeRules())
    trial.see(errors=(19, 19, 0, 0))
    assert judged(trial).decision is JudgeDecision.INSUFFICIENT


def test_the_guard_does_not_count_half_as_more_than_half():
    trial = Trial(JudgeRules())
    trial.see(errors=(20, 10, 0, 0))
    assert judged(trial).decision is JudgeDecision.INSUFFICIENT


def test_sure_but_negligible_errors_do_not_roll_back():
    trial = Trial(JudgeRules())
    for _ in range(10):
        trial.see(errors=(20, 0, 20, 0), times=100).see(errors=(20, 1, 20, 0))
    strict = JudgeRules(errors=trial.rules.errors.model_copy(update={"roll_back_min_percent": 0.0}))
    assert verdict(trial.evidence, trial.rules).decision is not JudgeDecision.ROLL_BACK
    assert verdict(trial.evidence, strict).decision is JudgeDecision.ROLL_BACK


def test_the_forecast_falls_to_nothing_as_an_equal_candidate_answers(trial: Trial):
    trial.see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), seconds=10.0)
    first = judged(trial)
    assert first.requests_to_certify is not None
    assert first.seconds_to_certify == pytest.approx(first.requests_to_certify / 2)
    answered = 20
    while judged(trial).decision is JudgeDecision.INSUFFICIENT:
        trial.see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), seconds=10.0)
        answered += 20
    assert answered == pytest.approx(first.requests_to_certify + 20, rel=0.2)
    assert judged(trial).requests_to_certify == 0


def test_the_reason_says_how_far_and_how_long(trial: Trial):
    trial.see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), seconds=10.0, times=5)
    answer = judged(trial)
    assert answer.reason.startswith(
        "Inconclusive after 100 candidate requests; evidence so far, of what passing needs: 5xx "
    )
    assert answer.reason.endswith("min at the present rate) if it is as good as stable.")


def test_when_nothing_is_ever_slow_the_reason_says_why_it_cannot_be_certified(trial: Trial):
    trial.see(errors=(20, 0, 80, 0), slow=(20, 0, 80, 0), times=100)
    answer = judged(trial)
    assert answer.requests_to_certify is None
    assert answer.reason.endswith("slow requests are too rare on both sides to be compared.")


def test_evidence_gathered_under_other_rules_gets_no_verdict(trial: Trial):
    with pytest.raises(ValueError, match="other rules"):
        verdict(trial.evidence, JudgeRules(errors=IndicatorRules(roll_back_above_ratio=1.1)))


def test_a_verdict_is_told_in_json(trial: Trial):
    trial.see(errors=(20, 1, 80, 2), slow=(20, 1, 80, 4))
    document = judged(trial).to_dict()
    assert document["decision"] == "insufficient"
    assert document["indicators"]["errors"]["candidate"] == {"requests": 20, "bad": 1}
    assert set(document) == {
        "decision",
        "reason",
        "culprit",
        "reject_progress",
        "indicators",
        "requests_to_certify",
        "seconds_to_certify",
    }


def test_an_indicator_that_is_only_watched_can_roll_back_but_need_not_be_certified():
    watched = IndicatorRules(roll_back_above_ratio=1.5, promote_below_ratio=None)
    good = Trial(JudgeRules(slow=watched)).see(errors=(20, 0, 80, 0), slow=(20, 2, 80, 8), times=30)
    bad = Trial(JudgeRules(slow=watched)).see(errors=(20, 0, 80, 0), slow=(20, 12, 80, 4), times=30)
    assert judged(good).decision is JudgeDecision.PROMOTE
    assert "slow requests" not in judged(good).reason.split("Passed: ")[1]
    assert judged(bad).decision is JudgeDecision.ROLL_BACK


def test_sides_add_up():
    total = SideCounts(BadRequestCount(3, 1), BadRequestCount(5, 0)) + SideCounts(
        BadRequestCount(2, 2), BadRequestCount(1, 1)
    )
    assert total.both == BadRequestCount(11, 4)
    assert total.both.share == pytest.approx(4 / 11)
