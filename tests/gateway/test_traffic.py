from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.traffic import TargetCounts, rates
from tests.gateway.counting import histogram_of

NOTHING = TargetCounts(
    epoch="1",
    since=datetime(2030, 1, 1, tzinfo=UTC),
    routed=0,
    requests=0,
    errors=0,
    broken=0,
    abandoned=0,
    forced_requests=0,
    forced_errors=0,
    latency_ms=histogram_of([]),
    first_byte_ms=histogram_of([]),
    in_flight=0,
)


def test_rates_are_differences_over_time() -> None:
    before = replace(NOTHING, requests=100, errors=10, latency_ms=histogram_of([5.0] * 90))
    after = replace(
        before,
        requests=150,
        errors=20,
        abandoned=2,
        forced_requests=3,
        in_flight=4,
        latency_ms=histogram_of([5.0] * 90 + [99.0] * 40),
    )
    seen = rates({"a": before}, {"a": after}, 5)["a"]
    assert (seen.requests, seen.errors, seen.abandoned, seen.forced_requests) == (50, 10, 2, 3)
    assert seen.requests_per_s == 10
    assert seen.error_share == 0.2
    assert seen.latency_ms.p50
    assert 80 <= seen.latency_ms.p50 <= 100
    assert seen.in_flight == 4


def test_a_target_that_was_not_there_before_counts_from_zero() -> None:
    assert rates({}, {"a": replace(NOTHING, requests=7)}, 1)["a"].requests == 7


@pytest.mark.parametrize(
    "early", [{"epoch": "0"}, {"requests": 9}, {"latency_ms": histogram_of([1.0, 1.0, 1.0])}]
)
def test_what_was_counted_across_a_reset_is_left_out(early: dict) -> None:
    before = replace(NOTHING, **early)
    after = replace(NOTHING, requests=5, errors=1, latency_ms=histogram_of([1.0]))
    seen = rates({"a": before}, {"a": after}, 1)["a"]
    assert (seen.requests, seen.errors) == (0, 0)


def test_without_requests_there_is_no_share_and_no_quantile() -> None:
    seen = rates({"a": NOTHING}, {"a": NOTHING}, 1)["a"]
    assert seen.error_share is None
    assert seen.latency_ms.p95 is None


def test_two_readings_need_time_between_them() -> None:
    with pytest.raises(ValueError):
        rates({}, {}, 0)
