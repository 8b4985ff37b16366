import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.latency import BOUNDS_MS, quantile_ms, since, total
from tests.gateway.counting import histogram_of

samples = st.lists(st.floats(0.01, 400_000), min_size=1, max_size=200)


def test_bounds_step_by_about_a_quarter_from_a_millisecond_to_five_minutes() -> None:
    assert BOUNDS_MS[0] == 1
    assert BOUNDS_MS[-1] == 320_000
    steps = [late / early for early, late in pairwise(BOUNDS_MS)]
    assert max(steps) <= 1.31
    assert min(steps) >= 1.22


@given(samples)
def test_a_histogram_counts_at_or_below(values: list[float]) -> None:
    histogram = histogram_of(values)
    assert histogram[-1] == (math.inf, len(values))
    for bound, count in histogram:
        assert count == sum(value <= bound for value in values)


@given(samples, samples)
def test_what_came_since_is_what_was_added(early: list[float], late: list[float]) -> None:
    assert since(histogram_of(early), histogram_of(early + late)) == histogram_of(late)
    assert since((), histogram_of(late)) == histogram_of(late)


def test_readings_that_do_not_follow_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="started again"):
        since(histogram_of([5, 5]), histogram_of([5]))
    with pytest.raises(ValueError, match="different bounds"):
        since(((1.0, 1), (math.inf, 1)), histogram_of([5]))


@given(samples, st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    true = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
    found = quantile_ms(histogram_of(values), share)
    assert found is not None
    bounds = (0.0, *BOUNDS_MS, math.inf)
    low, high = next((low, high) for low, high in pairwise(bounds) if low < true <= high)
    assert low <= found <= min(high, BOUNDS_MS[-1])


def test_nothing_has_no_quantile() -> None:
    assert quantile_ms((), 0.5) is None
    assert quantile_ms(histogram_of([]), 0.5) is None
    assert total(()) == 0


def test_what_is_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        quantile_ms(histogram_of([1]), 95)
