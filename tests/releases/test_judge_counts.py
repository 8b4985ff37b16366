"""From two readings of the gateway to one increment."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.traffic import TargetCounts
from releases.judge.counts import increments_between, slow_threshold_ms
from releases.judge.evidence import BadRequestCount, SideCounts

INF = math.inf


def counts(
    requests: int = 0, errors: int = 0, fast: int = 0, slow: int = 0, *, forced: int = 0, epoch: str = "a"
) -> TargetCounts:
    histogram = ((100.0, fast), (500.0, fast + slow), (INF, fast + slow))
    return TargetCounts(
        epoch=epoch,
        since=datetime(2030, 1, 1, tzinfo=UTC),
        routed=requests,
        requests=requests,
        errors=errors,
        broken=0,
        abandoned=0,
        forced_requests=forced,
        forced_errors=forced,
        latency_ms=histogram,
        first_byte_ms=histogram,
        in_flight=0,
    )


def between(before, after, threshold=100.0):
    return increments_between(
        before, after, candidate="new", stable="old", seconds=5.0, slow_threshold_ms=threshold
    )


BEFORE = {"new": counts(10, 1, 8, 2), "old": counts(100, 2, 90, 10)}


def test_an_increment_is_what_both_sides_answered_in_between():
    after = {"new": counts(30, 4, 20, 10), "old": counts(180, 3, 165, 15)}
    seen = between(BEFORE, after)
    assert seen.seconds == 5.0
    assert not seen.interrupted
    assert seen.indicators == {
        "errors": SideCounts(BadRequestCount(20, 3), BadRequestCount(80, 1)),
        "slow": SideCounts(BadRequestCount(20, 8), BadRequestCount(80, 5)),
    }


def test_requests_that_a_client_forced_to_a_side_are_not_judged():
    after = {"new": counts(10, 1, 8, 2, forced=5), "old": BEFORE["old"]}
    assert between(BEFORE, after).indicators["errors"].candidate == BadRequestCount(0, 0)


def test_without_a_threshold_only_errors_are_told():
    assert set(between(BEFORE, BEFORE, threshold=None).indicators) == {"errors"}


def test_a_threshold_that_the_histogram_lacks_leaves_slow_untold():
    assert set(between(BEFORE, BEFORE, threshold=123.0).indicators) == {"errors"}


def test_a_target_that_has_not_answered_yet_may_come_without_buckets():
    before = {"new": replace(counts(), latency_ms=()), "old": BEFORE["old"]}
    after = {"new": counts(20, 0, 15, 5), "old": BEFORE["old"]}
    assert between(before, after).indicators["slow"].candidate == BadRequestCount(20, 5)


@pytest.mark.parametrize(
    "after",
    [
        {"new": counts(30, 4, 20, 10, epoch="b"), "old": counts(180, 3, 165, 15)},
        {"new": counts(30, 4, 20, 10), "old": counts(180, 3, 165, 15, epoch="b")},
        {"new": counts(3, 0, 3, 0), "old": counts(180, 3, 165, 15)},
        {"new": counts(30, 0, 20, 10), "old": counts(180, 3, 165, 15)},
        {"new": counts(30, 4, 7, 2), "old": counts(180, 3, 165, 15)},
        {"new": counts(30, 4, 30, 0), "old": counts(180, 3, 165, 15)},
        {"old": counts(180, 3, 165, 15)},
        {"new": counts(30, 4, 20, 10)},
        {},
    ],
    ids=[
        "candidate restarted",
        "stable restarted",
        "requests fell",
        "errors fell",
        "answers fell",
        "slow fell",
        "candidate missing",
        "stable missing",
        "all missing",
    ],
)
def test_counters_that_started_again_lose_the_stretch_for_both_sides(after):
    seen = between(BEFORE, after)
    assert seen.interrupted
    assert seen.indicators == {}


def test_a_side_that_appears_between_two_readings_starts_at_the_second():
    assert between({"old": BEFORE["old"]}, BEFORE).interrupted
    assert not between(BEFORE, BEFORE).interrupted


def test_an_error_seen_before_its_request_does_not_make_more_errors_than_requests():
    after = {"new": counts(11, 4, 9, 2), "old": BEFORE["old"]}
    assert between(BEFORE, after).indicators["errors"].candidate == BadRequestCount(1, 1)


readings = st.builds(
    counts,
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 50),
    forced=st.integers(0, 50),
    epoch=st.sampled_from("ab"),
)
pairs = st.dictionaries(st.sampled_from(["new", "old", "other"]), readings)


@given(pairs, pairs, st.sampled_from([None, 100.0, 123.0, 500.0]))
def test_whatever_the_gateway_says_an_increment_is_never_negative(before, after, threshold):
    seen = between(before, after, threshold)
    for both in seen.indicators.values():
        for tally in (both.candidate, both.stable):
            assert 0 <= tally.bad <= tally.requests


def histogram(*below: tuple[float, int]) -> tuple[tuple[float, int], ...]:
    return below


def test_slow_means_slower_than_the_bound_that_one_in_twenty_exceeded():
    seen = histogram((50.0, 500), (100.0, 900), (250.0, 960), (500.0, 999), (INF, 1000))
    assert slow_threshold_ms(seen) == 250.0


def test_too_few_answers_tell_no_usual_speed():
    assert slow_threshold_ms(histogram((50.0, 90), (INF, 99))) is None
    assert slow_threshold_ms(()) is None


def test_buckets_too_coarse_tell_no_usual_speed():
    assert slow_threshold_ms(histogram((50.0, 600), (100.0, 999), (INF, 1000))) is None


def test_the_infinite_bound_is_never_the_threshold():
    assert slow_threshold_ms(histogram((INF, 1000))) is None
