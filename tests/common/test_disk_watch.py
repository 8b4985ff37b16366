"""Each change of the disk's state is told once, whoever sees it, and a better one when it lasts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from common import disk, events
from common.disk import MIB, DiskSpace
from common.disk_watch import (
    FORGET_SECONDS,
    SETTLED_SECONDS,
    DiskFilled,
    DiskRanLow,
    DiskRecovered,
    DiskWatch,
)
from common.models import DiskCondition

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

LOW, FULL, ENOUGH = 900, 0, 9_000


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def of(mib: int) -> None:
        room = DiskSpace(Path("/srv/slipway"), 10_000 * MIB, mib * MIB, reserve=100 * MIB, warn_percent=10)
        monkeypatch.setattr(disk, "room", lambda: room)

    return of


@pytest.fixture
def told() -> list[tuple[str, str]]:
    """Collect what was told: the event and the state before it."""
    said: list[tuple[str, str]] = []

    def note(event: DiskRanLow | DiskFilled | DiskRecovered) -> None:
        said.append((type(event).__name__, event.before))

    for kind in (DiskRanLow, DiskFilled, DiskRecovered):
        events.witness(kind, note)
    return said


class Process:
    """A process that watches the disk, with a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = DiskWatch(host="node-a", clock=lambda: self.now)

    def look(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.watch.look()


def test_each_change_is_told_once_by_whichever_process_sees_it_first(left, told) -> None:
    one, other = Process(), Process()
    for mib in (ENOUGH, LOW, LOW, FULL, FULL):
        left(mib)
        one.look()
        other.look()
    assert told == [("DiskRanLow", "ok"), ("DiskFilled", "low")]
    assert (DiskCondition.objects.get().host, DiskCondition.objects.get().state) == ("node-a", "full")


def test_room_again_is_told_when_it_lasts(left, told) -> None:
    one, other = Process(), Process()
    left(FULL)
    one.look()
    for _ in range(3):
        left(ENOUGH)
        one.look()
        left(FULL)
        one.look(SETTLED_SECONDS)
    assert told == [("DiskFilled", "ok")]
    left(ENOUGH)
    for process in (one, other):
        process.look()
        process.look(SETTLED_SECONDS)
    assert told == [("DiskFilled", "ok"), ("DiskRecovered", "full")]
    assert not DiskCondition.objects.exists()


def test_a_process_that_starts_later_knows_what_was_told(left, told) -> None:
    left(LOW)
    Process().look()
    Process().look()
    assert told == [("DiskRanLow", "ok")]


def test_what_a_process_that_ended_has_told_another_takes_back(left, told) -> None:
    survivor = Process()
    left(ENOUGH)
    survivor.look()
    left(FULL)
    Process().look()
    left(ENOUGH)
    survivor.look(FORGET_SECONDS + 1)
    survivor.look(SETTLED_SECONDS)
    assert told[-1] == ("DiskRecovered", "full")


def test_what_could_not_be_written_is_told_later(left, told, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    left(FULL)
    with monkeypatch.context() as broken:
        broken.setattr("common.disk_watch.publish", lambda event: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            process.look()
    assert not DiskCondition.objects.exists()
    process.look()
    assert told == [("DiskFilled", "ok")]
