"""Tries spread over a day; what a receiver asks for is honoured within bounds."""

from datetime import UTC, datetime, timedelta

import pytest

from common.retry import retry_after
from common.webhooks.schedule import LONGEST_ASKED, MOST_TRIES, delay_after, pause_after

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def test_the_last_try_comes_about_a_day_after_the_first() -> None:
    for _ in range(50):
        whole = sum((delay_after(tries) for tries in range(1, MOST_TRIES)), timedelta(0))
        assert timedelta(hours=18) < whole < timedelta(hours=30)


def test_the_second_try_comes_within_seconds_and_not_for_all_at_once() -> None:
    delays = {delay_after(1) for _ in range(20)}
    assert all(timedelta(seconds=4) <= delay <= timedelta(seconds=6) for delay in delays)
    assert len(delays) > 1


def test_an_endpoint_that_fails_is_left_alone_for_longer_and_longer_up_to_five_minutes() -> None:
    assert [pause_after(failures).seconds for failures in (1, 2, 3, 9, 10, 999)] == [1, 2, 4, 256, 300, 300]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        (" 90 ", 90),
        ("99999999999999999999", 3600),
        ("Sat, 21 Nov 2026 12:02:00 GMT", 120),
        ("Sat, 21 Nov 2026 12:02:00 -0000", 120),
        ("Sat, 21 Nov 2020 12:02:00 GMT", 0),
        ("Sat, 21 Nov 2099 12:02:00 GMT", 3600),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("\u0661", None),
    ],
)
def test_retry_after_is_read_and_bounded(given: str, seconds: int | None) -> None:
    found = retry_after(given, now=NOW, longest=LONGEST_ASKED)
    assert found == (None if seconds is None else timedelta(seconds=seconds))
