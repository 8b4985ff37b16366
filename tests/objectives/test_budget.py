"""Error budgets as arithmetic: good and bad requests in, what is left and how fast it goes out."""

from datetime import UTC, datetime, timedelta

import pytest

from objectives.budget import FAST, SLOW, BurnWindows, GoodAndBad, budget_of, burns, hour_of, minute_of

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


def minutes(*bad_of_a_thousand: tuple[int, int]) -> list[GoodAndBad]:
    """A thousand requests a minute up to now: (minutes, bad ones in each), oldest first."""
    bad = [failed for length, failed in bad_of_a_thousand for _ in range(length)]
    first = minute_of(NOW) - len(bad) + 1
    return [GoodAndBad(first + place, 1000, failed) for place, failed in enumerate(bad)]


@pytest.mark.parametrize(
    ("seen", "windows", "rate"),
    [
        (minutes((360, 20)), FAST, 20.0),
        (minutes((360, 14)), FAST, None),
        # It was bad for long enough, and is over.
        (minutes((300, 0), (50, 20), (10, 0)), FAST, None),
        # It is bad now, and has not been for long.
        (minutes((355, 0), (5, 100)), FAST, None),
        (minutes((355, 0), (5, 200)), FAST, 1000 / 60),
        (minutes((360, 7)), SLOW, 7.0),
        (minutes((330, 7), (30, 0)), SLOW, None),
    ],
)
def test_a_budget_burns_when_both_windows_are_above_the_rate(
    seen: list[GoodAndBad], windows: BurnWindows, rate: float | None
) -> None:
    assert burns(seen, windows, target_percent=99.9, now=NOW) == (rate and pytest.approx(rate))


def test_a_few_failures_of_a_service_with_little_traffic_burn_nothing() -> None:
    seen = [GoodAndBad(minute_of(NOW) - 1, 4, 4)]
    assert burns(seen, FAST, target_percent=99.9, now=NOW) is None


def test_what_is_left_counts_the_window_alone() -> None:
    hours = [GoodAndBad(hour_of(NOW) - age, 1000, bad) for age, bad in ((200, 500), (5, 6), (0, 3))]
    budget = budget_of([], hours, target_percent=99, window=timedelta(days=7), now=NOW)
    assert (budget.total, budget.bad, budget.allowed) == (2000, 9, pytest.approx(20))
    assert budget.remaining == pytest.approx(0.55)
    assert budget.level_percent == pytest.approx(99.55)
    assert budget.lasts is None


def test_the_rest_lasts_as_long_as_the_last_hour_says() -> None:
    hours = [GoodAndBad(hour_of(NOW), 60_000, 30)]
    budget = budget_of(minutes((60, 2)), hours, target_percent=99.9, window=timedelta(days=30), now=NOW)
    assert budget.lasts == timedelta(days=7, hours=12)
