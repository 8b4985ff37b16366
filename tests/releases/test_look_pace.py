"""How often releases with traffic are looked at follows from how many there are."""

from datetime import timedelta

from releases.reconcilers.pace import LOOKS_PER_SECOND, MOST, LookPace


class LookTimes:
    at = 0.0

    def __call__(self) -> float:
        return self.at


def test_few_releases_are_looked_at_each_second_and_many_less_often_for_as_long_as_they_are_many() -> None:
    clock = LookTimes()
    pace = LookPace(clock)
    assert pace.wait() == timedelta(seconds=1)
    for _ in range(3):
        for release in range(LOOKS_PER_SECOND):
            pace.note(release)
    assert pace.wait() == timedelta(seconds=1)
    for release in range(4 * LOOKS_PER_SECOND):
        pace.note(release)
    assert pace.wait() == timedelta(seconds=4)
    for release in range(100 * LOOKS_PER_SECOND):
        pace.note(release)
    assert pace.wait() == MOST
    clock.at += 60
    pace.note(1)
    assert pace.wait() == timedelta(seconds=1)
