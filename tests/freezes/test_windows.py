"""When windows freeze, by the clocks of their zones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freezes.windows import BadRecurrence, FreezeTime, FreezeWindow, frozen_at, parsed_rule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def weekends(**changes: object) -> FreezeWindow:
    """Return a window from each Friday 18:00 to Monday 08:00 in Paris."""
    values = {
        "denies": True,
        "starts_at": at("2026-01-02T18:00+01:00"),
        "zone": "Europe/Paris",
        "minutes": 62 * 60,
        "recurrence": "FREQ=WEEKLY;BYDAY=FR",
    }
    return FreezeWindow(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("friday", "monday"),
    [
        ("2026-01-16T18:00+01:00", "2026-01-19T08:00+01:00"),
        ("2026-03-27T18:00+01:00", "2026-03-30T08:00+02:00"),  # summer time begins in between
        ("2026-10-23T18:00+02:00", "2026-10-26T08:00+01:00"),  # summer time ends in between
    ],
)
def test_a_weekend_begins_and_ends_by_the_clock_on_the_wall(friday: str, monday: str) -> None:
    second = timedelta(seconds=1)
    assert frozen_at([weekends()], at(friday) - second) is None
    for moment in (at(friday), at(friday) + timedelta(hours=40), at(monday) - second):
        verdict = frozen_at([weekends()], moment)
        assert verdict is not None
        assert verdict.until == at(monday)
    assert frozen_at([weekends()], at(monday)) is None


def test_a_time_that_summer_time_skips_is_an_hour_later() -> None:
    nightly = weekends(starts_at=at("2026-03-20T02:30+01:00"), minutes=60, recurrence="FREQ=DAILY")
    (time,) = nightly.times(at("2026-03-29T00:00Z"), at("2026-03-29T12:00Z"))
    assert (time.begin, time.end) == (at("2026-03-29T03:30+02:00"), at("2026-03-29T04:30+02:00"))


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("America/New_York", "2026-03-07T14:00Z", "2026-03-08T13:00Z"),
        ("America/New_York", "2026-10-31T13:00Z", "2026-11-01T14:00Z"),
        ("Australia/Sydney", "2026-04-03T22:00Z", "2026-04-04T23:00Z"),
        ("Australia/Lord_Howe", "2026-10-02T22:30Z", "2026-10-03T22:00Z"),  # by half an hour
    ],
)
def test_an_allowing_window_opens_by_the_clock_on_the_wall_in_spring_and_autumn(
    zone: str, before: str, after: str
) -> None:
    """The window is open from 9:00 to 17:00, the day before the clocks change and the day they do."""
    first = at("2026-01-05T09:00").replace(tzinfo=ZoneInfo(zone))
    daily = weekends(denies=False, starts_at=first, zone=zone, minutes=480, recurrence="FREQ=DAILY")
    for opens in (at(before), at(after)):
        closed = frozen_at([daily], opens - timedelta(minutes=1))
        assert closed is not None
        assert closed.until == opens
        assert frozen_at([daily], opens) is None
        assert frozen_at([daily], opens + timedelta(hours=7, minutes=59)) is None
        assert frozen_at([daily], opens + timedelta(hours=8)) is not None


def test_an_hour_that_comes_twice_in_autumn_is_denied_or_allowed_both_times() -> None:
    """The hour from 1:00 of 1 November comes twice in New York, at 5:00 and 6:00 of UTC."""
    first = at("2026-10-20T01:00-04:00")
    nightly = weekends(starts_at=first, zone="America/New_York", minutes=60, recurrence="FREQ=DAILY")
    allowing = replace(nightly, denies=False)
    for moment in ("2026-11-01T05:00Z", "2026-11-01T06:00Z", "2026-11-01T06:59Z"):
        denied = frozen_at([nightly], at(moment))
        assert denied is not None
        assert denied.until == at("2026-11-01T07:00Z")
        assert frozen_at([allowing], at(moment)) is None
    assert frozen_at([nightly], at("2026-11-01T07:00Z")) is None
    assert frozen_at([allowing], at("2026-11-01T07:00Z")) is not None


def test_outside_of_allowing_windows_releases_are_frozen() -> None:
    mornings = weekends(
        denies=False,
        starts_at=at("2026-01-05T09:00+01:00"),
        minutes=180,
        recurrence="FREQ=WEEKLY;BYDAY=MO,TU,WE,TH",
    )
    assert frozen_at([mornings], at("2026-01-06T10:00+01:00")) is None
    afternoon = frozen_at([mornings], at("2026-01-08T14:00+01:00"))
    assert afternoon is not None
    assert afternoon.until == at("2026-01-12T09:00+01:00")


def test_a_denying_window_outranks_an_allowing_one_and_the_end_follows_from_both() -> None:
    always = weekends(denies=False, starts_at=at("2026-01-05T00:00Z"), minutes=7 * 1440, recurrence="")
    verdict = frozen_at([always, weekends()], at("2026-01-10T12:00Z"))
    assert verdict is not None
    assert verdict.by == 1
    # The allowing window is over when the weekend ends, and none follows it.
    late = frozen_at([always, weekends(minutes=100 * 60)], at("2026-01-10T12:00Z"))
    assert late is not None
    assert late.until is None


def test_a_team_allows_nothing_that_the_installation_forbids() -> None:
    of_all = weekends(denies=False, minutes=60)
    of_team = weekends(denies=False, minutes=366 * 1440, recurrence="", owner=7)
    verdict = frozen_at([of_all, of_team], at("2026-01-06T10:00+01:00"))
    assert verdict is not None
    assert verdict.by == 0
    assert verdict.until == at("2026-01-09T18:00+01:00")


def test_a_stop_has_no_end() -> None:
    stop = FreezeWindow(True, at("2026-01-01T00:00Z"))
    verdict = frozen_at([stop, weekends()], at("2026-05-01T00:00Z"))
    assert verdict is not None
    assert (verdict.by, verdict.until) == (0, None)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "BYDAY=FR",
        "FREQ=SECONDLY",
        "FREQ=WEEKLY;BYDAY=XX",
        "FREQ=DAILY;UNTIL=tomorrow",
        "FREQ=DAILY;UNTIL=99991231T000000Z",
        "FREQ=DAILY;COUNT=many",
        "FREQ=DAILY;COUNT=²",
        "FREQ=DAILY;COUNT=99999999999999999999",
        "FREQ=DAILY;BYMINUTE=0,1,2,3",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY\nRRULE:FREQ=WEEKLY",
    ],
)
def test_a_rule_that_is_not_understood_is_refused(rule: str) -> None:
    with pytest.raises(BadRecurrence):
        parsed_rule(rule, datetime(2026, 1, 1), ZoneInfo("Europe/Paris"))  # noqa: DTZ001 (a wall time)


def test_a_window_that_never_ends_by_itself_is_followed_in_little_work() -> None:
    """A daily window longer than a day freezes for ever: each look must still be cheap."""
    daily = weekends(recurrence="FREQ=DAILY")
    calls = 0

    class Counted(FreezeWindow):
        def times(self, after: datetime, before: datetime) -> Iterator[FreezeTime]:
            nonlocal calls
            calls += 1
            return super().times(after, before)

    values = (daily.denies, daily.starts_at, daily.zone, daily.minutes, daily.recurrence)
    verdict = frozen_at([Counted(*values)], at("2026-06-01T12:00Z"))
    assert verdict is not None
    assert verdict.until is None
    assert calls < 1_000


HOURS = st.integers(0, 24 * 40)


@settings(deadline=None, max_examples=30)
@given(
    windows=st.lists(
        st.builds(
            FreezeWindow,
            denies=st.booleans(),
            starts_at=HOURS.map(lambda hour: datetime(2026, 3, 10, tzinfo=UTC) + timedelta(hours=hour)),
            zone=st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"]),
            minutes=st.one_of(st.none(), st.integers(1, 5000)),
            recurrence=st.sampled_from(["", "FREQ=DAILY", "FREQ=WEEKLY;BYDAY=SU", "FREQ=DAILY;COUNT=3"]),
        ),
        max_size=4,
    ),
    hour=HOURS,
)
def test_the_end_is_the_first_moment_at_which_nothing_freezes(windows: list[FreezeWindow], hour: int) -> None:
    moment = datetime(2026, 3, 10, tzinfo=UTC) + timedelta(hours=hour)
    verdict = frozen_at(windows, moment)
    if verdict is None:
        return
    horizon = moment + timedelta(days=60)
    end = verdict.until or horizon
    assert end > moment
    assert verdict.until is None or frozen_at(windows, end) is None
    probe = moment
    while probe < min(end, horizon):
        assert frozen_at(windows, probe) is not None
        probe += timedelta(days=5)
