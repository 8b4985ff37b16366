"""The interval in which chance lets the observed share lie."""

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from releases.split import EXACT_BELOW, interval_percent


@given(st.integers(1, EXACT_BELOW - 1), st.integers(1, 99))
def test_few_requests_get_exact_binomial_quantiles(requests: int, percent: int) -> None:
    low, high = interval_percent(requests, percent)
    exact_low, exact_high = binom.ppf([0.0005, 0.9995], requests, percent / 100)
    assert abs(low * requests / 100 - exact_low) < 1.001
    assert abs(high * requests / 100 - exact_high) < 1.001


@given(st.integers(EXACT_BELOW, 10_000_000), st.integers(1, 99))
def test_many_requests_get_nearly_the_same(requests: int, percent: int) -> None:
    low, high = interval_percent(requests, percent)
    exact = binom.ppf([0.0005, 0.9995], requests, percent / 100)
    spread = (binom.std(requests, percent / 100) + 1) * 100 / requests
    assert abs(low - 100 * exact[0] / requests) < spread
    assert abs(high - 100 * exact[1] / requests) < spread


@given(st.integers(1, 5_000), st.integers(0, 100))
def test_the_wish_itself_always_lies_within(requests: int, percent: int) -> None:
    low, high = interval_percent(requests, percent)
    assert low <= percent + 100 / requests
    assert high >= percent - 100 / requests
    assert 0 <= low <= high <= 100
