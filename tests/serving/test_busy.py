"""Busy is the mean share of slots at work over the last ten seconds, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.busy import BusyRate, Recent

changes = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 4)), max_size=30)


def test_one_of_two_slots_for_half_of_the_window_is_a_quarter() -> None:
    rate = BusyRate(2, now=0.0)
    rate.change(1, now=20.0)
    rate.change(0, now=25.0)
    assert rate.share(now=30.0) == pytest.approx(0.25)


def test_all_slots_for_the_whole_window_is_one() -> None:
    rate = BusyRate(3, now=0.0)
    rate.change(3, now=5.0)
    assert rate.share(now=15.0) == 1.0


def test_what_is_older_than_the_window_is_forgotten() -> None:
    rate = BusyRate(1, now=0.0)
    rate.change(1, now=0.0)
    rate.change(0, now=9.0)
    assert rate.share(now=19.5) == 0.0


def test_the_time_before_the_start_counts_as_idle() -> None:
    rate = BusyRate(1, now=100.0)
    rate.change(1, now=100.0)
    assert rate.share(now=101.0) == pytest.approx(0.1)


@given(changes, st.integers(0, 2_000))
def test_it_is_the_integral_of_the_level_over_the_window(
    steps: list[tuple[int, int]], wait_centiseconds: int
) -> None:
    rate = BusyRate(4, now=0.0)
    levels: list[int] = []
    level = now = 0
    for pause, next_level in steps:
        levels += [level] * pause
        now += pause
        rate.change(next_level, now=now / 100)
        level = next_level
    levels += [level] * wait_centiseconds
    now += wait_centiseconds
    expected = sum(levels[-1_000:]) / (4 * 1_000)
    assert rate.share(now=now / 100) == pytest.approx(expected, abs=1e-9)


def test_percentiles_are_those_of_what_was_seen() -> None:
    recent = Recent()
    for milliseconds in range(1, 101):
        recent.observe(milliseconds / 1_000, now=0.0)
    latency = recent.latency(now=1.0)
    assert latency is not None
    assert (latency.p50_ms, latency.p95_ms, latency.count) == (50.0, 95.0, 100)


def test_percentiles_forget_after_a_minute() -> None:
    recent = Recent()
    recent.observe(1.0, now=0.0)
    assert recent.latency(now=61.0) is None
