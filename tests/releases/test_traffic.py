"""What each side answers at the moment, from readings of cumulative counts."""

from datetime import UTC, datetime

import pytest

from gateway.traffic import TargetCounts
from releases.traffic import FIGURES_SECONDS, RATE_SECONDS, SideTraffic, TrafficWindow
from tests.gateway.counting import histogram_of


def counts(requests: int, *, errors: int = 0, ms: float = 80.0, in_flight: int = 0, epoch: str = "1"):
    """Return counts of so many requests, each good one answered after `ms`."""
    latency = histogram_of([ms] * (requests - errors))
    return TargetCounts(
        epoch=epoch,
        since=datetime(2030, 1, 1, tzinfo=UTC),
        routed=requests,
        requests=requests,
        errors=errors,
        broken=0,
        abandoned=0,
        forced_requests=0,
        forced_errors=0,
        latency_ms=latency,
        first_byte_ms=latency,
        in_flight=in_flight,
    )


def window(*readings: tuple[float, int], **how: float) -> TrafficWindow:
    """Return a window of the target `chat`; readings are (at, requests so far)."""
    made = TrafficWindow()
    for at, requests in readings:
        made.add(at, {"chat": counts(requests, **how)})
    return made


def test_before_any_reading_there_is_nothing() -> None:
    assert TrafficWindow().sides() == {}


def test_one_reading_tells_only_what_is_in_flight() -> None:
    made = TrafficWindow()
    made.add(5.0, {"chat": counts(1_000, in_flight=3)})

    assert made.sides() == {"chat": SideTraffic(in_flight=3)}


def test_the_rate_follows_the_last_seconds_and_the_figures_the_last_minute() -> None:
    side = window((0, 0), (40, 400), (50, 500), (55, 1_000)).sides()["chat"]

    assert side.rate == pytest.approx((1_000 - 500) / 5)
    assert side.requests == 1_000


def test_the_rate_reaches_back_to_the_reading_before_where_the_last_seconds_hold_none() -> None:
    apart = RATE_SECONDS + 20

    assert window((0, 0), (apart, 300)).sides()["chat"].rate == pytest.approx(300 / apart)


def test_a_rate_rests_on_more_than_a_moment() -> None:
    side = window((0, 0), (40, 400), (41, 400), (42, 420)).sides()["chat"]

    assert side.rate == pytest.approx(10)


def test_what_is_older_than_the_minute_is_forgotten() -> None:
    side = window((0, 0), (1, 700), (1 + FIGURES_SECONDS, 760)).sides()["chat"]

    assert side.requests == 60


def test_errors_and_percentiles_are_of_the_same_stretch_in_seconds() -> None:
    made = TrafficWindow()
    made.add(0, {"chat": counts(100, errors=50, ms=500)})
    made.add(10, {"chat": counts(100, errors=50, ms=500)})
    quiet = made.sides()["chat"]
    assert (quiet.rate, quiet.error_share, quiet.p50, quiet.p95) == (0, None, None, None)

    side = window((0, 0), (10, 200)).sides()["chat"]
    assert side.error_share == 0
    assert side.p50 == pytest.approx(0.08, rel=0.26)
    assert side.first_byte_p95 == pytest.approx(0.08, rel=0.26)

    made = TrafficWindow()
    made.add(0, {"chat": counts(0)})
    made.add(10, {"chat": counts(200, errors=20)})
    assert made.sides()["chat"].error_share == pytest.approx(0.1)


def test_a_side_that_comes_later_counts_from_its_first_reading() -> None:
    made = TrafficWindow()
    made.add(0, {"stable": counts(100)})
    made.add(10, {"stable": counts(300), "canary": counts(20)})

    assert {name: side.requests for name, side in made.sides().items()} == {"stable": 200, "canary": 20}


def test_after_a_reset_the_window_begins_anew() -> None:
    made = TrafficWindow()
    made.add(0, {"chat": counts(900)})
    made.add(10, {"chat": counts(40, epoch="2")})
    assert made.sides() == {"chat": SideTraffic(in_flight=0)}

    made.add(20, {"chat": counts(60, epoch="2")})
    side = made.sides()["chat"]
    assert (side.requests, side.rate) == (20, 2)


def test_two_readings_at_one_moment_are_no_stretch() -> None:
    assert window((7, 10), (7, 20)).sides()["chat"].rate is None
