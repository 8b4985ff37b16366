from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.pages import formats
from tests.console.cases import AGES, DUE, NUMBERS
from tests.console.conftest import Tab

NOW = datetime(2026, 11, 21, 1, 24, 5, tzinfo=UTC)
SAY: dict[str, Callable[..., str]] = {
    "bytes": formats.byte_size,
    "memory": formats.memory_size,
    "byte_rate": formats.byte_rate,
    "rate": formats.rate,
    "count": formats.count,
    "percent": formats.percent,
    "way": formats.way,
    "seconds": formats.duration,
    "span": formats.span,
}


@pytest.mark.parametrize(("name", "arguments", "text"), NUMBERS)
def test_a_number_reads_with_its_unit(name: str, arguments: list[Any], text: str) -> None:
    assert SAY[name](*arguments) == text


@pytest.mark.parametrize(("age", "text"), AGES)
def test_a_moment_reads_as_its_distance(age: timedelta, text: str) -> None:
    assert formats.relative(NOW - age, NOW) == text


@pytest.mark.parametrize(("ahead", "text"), DUE)
def test_what_is_done_next_is_due_once_its_moment_has_passed(ahead: timedelta, text: str) -> None:
    assert formats.due(NOW + ahead, NOW) == text


def test_a_timedelta_is_a_number_of_seconds() -> None:
    assert formats.duration(timedelta(minutes=4, seconds=5)) == formats.duration(245)
    assert formats.span(timedelta(minutes=4, seconds=5)) == formats.span(245)


def test_the_exact_time_is_utc() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert formats.absolute(elsewhere) == "2026-11-21 01:24:05 UTC"


@given(st.floats(min_value=0, max_value=1e17))
def test_a_size_never_has_more_than_four_digits_before_its_unit(count: float) -> None:
    amount, unit = formats.byte_size(count).split(formats.SPACE)
    assert len([sign for sign in amount if sign.isdigit()]) <= 4
    assert unit in formats.DECIMAL_UNITS


@given(st.floats(min_value=0, max_value=1))
def test_a_share_is_all_or_nothing_only_when_it_is(share: float) -> None:
    text = formats.percent(share)
    assert (text == "0%") == (share == 0)
    assert (text == "100%") == (share == 1)


@pytest.mark.browser
def test_the_browser_says_the_same_as_the_server(tab: Tab) -> None:
    tab.open("/styleguide/")
    told = tab.page.evaluate(
        """async (cases) => {
          const format = await import("slipway/format");
          return cases.map(([name, args]) => format.FORMATS[name](...args));
        }""",
        [[name, arguments] for name, arguments, _ in NUMBERS],
    )
    assert told == [text for _, _, text in NUMBERS]
    aged = tab.page.evaluate(
        """async ([moments, now]) => {
          const format = await import("slipway/format");
          return moments.map((moment) => format.relative(moment, now));
        }""",
        [[(NOW - age).timestamp() * 1000 for age, _ in AGES], NOW.timestamp() * 1000],
    )
    assert aged == [text for _, text in AGES]
    due = tab.page.evaluate(
        """async ([moments, now]) => {
          const format = await import("slipway/format");
          return moments.map((moment) => format.due(moment, now));
        }""",
        [[(NOW + ahead).timestamp() * 1000 for ahead, _ in DUE], NOW.timestamp() * 1000],
    )
    assert due == [text for _, text in DUE]
