"""What looks after something every so often, for ever."""

from datetime import timedelta

import pytest

from tests.crash.harness import Clock, worker
from tests.toys.beats import KeepBeat
from tests.toys.models import Beat

pytestmark = pytest.mark.django_db


def test_the_only_row_is_planted_once_and_due_at_once() -> None:
    clock = Clock()
    kernel = worker([KeepBeat()], clock)
    kernel.plant("toys", "default")
    kernel.plant("toys", "default")
    assert Beat.objects.get().next_at == clock()


def test_it_does_its_work_every_so_often() -> None:
    clock = Clock()
    kernel = worker([KeepBeat()], clock)
    kernel.plant("toys", "default")
    for _ in range(3):
        assert kernel.sweep() == 1
        assert kernel.sweep() == 0
        assert Beat.objects.get().seen_at == clock()
        clock.pass_(KeepBeat.every)


def test_it_does_not_give_up(monkeypatch) -> None:
    clock = Clock()
    kernel = worker([KeepBeat()], clock)
    kernel.plant("toys", "default")

    def fail(*_: object) -> None:
        raise RuntimeError("no pulse")

    monkeypatch.setattr(KeepBeat, "observe", fail)
    began = clock()
    for _ in range(50):
        kernel.sweep()
        clock.pass_(timedelta(minutes=2))
    row = Beat.objects.get()
    assert (row.stuck_at, row.failed_since) == (None, began)
    monkeypatch.undo()
    kernel.sweep()
    assert Beat.objects.get().failed_since is None
