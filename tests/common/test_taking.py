"""Sweeper and Celery workers take due rows alike, and prove that they do."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import ANY, patch

import psutil
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from common.health import Unhealthy
from common.models import Pulse
from common.reconcile import DueRow, Kernel, pulses, taking
from common.reconcile.pulses import ProcessIdentity, RowShare, WorkDone, takers
from common.reconcile.taking import StepWorker
from controlplane import health
from tests.crash.harness import Clock, worker
from tests.patience import eventually
from tests.toys.models import Parcel
from tests.toys.parcels import Label, ParcelReconciler, World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kernel() -> Kernel:
    return worker([ParcelReconciler(World())], Clock(timezone.now()))


@pytest.fixture
def started() -> Iterator[list[StepWorker]]:
    some: list[StepWorker] = []
    yield some
    for taker in some:
        taker.stop(within_seconds=5)


def start(started: list[StepWorker], kernel: Kernel, role: str = "sweeper", threads: int = 2) -> StepWorker:
    taker = StepWorker(kernel, role=role, threads=threads, every_seconds=0.02)
    started.append(taker)
    taker.start()
    return taker


def test_what_is_due_is_taken_and_told(kernel: Kernel, started: list[StepWorker]) -> None:
    parcels = [Parcel.objects.create(next_at=kernel.clock()) for _ in range(5)]
    taker = start(started, kernel)

    eventually(lambda: Parcel.objects.filter(state="posted").count() == len(parcels))
    eventually(lambda: takers()["sweeper"].alive == 1)
    assert (takers()["sweeper"].silent, takers()["worker"].alive) == (0, 0)

    started.remove(taker)
    taker.stop()
    found = takers()["sweeper"]
    assert (found.alive, found.taken, found.lost) == (0, 3 * len(parcels), 0)


def test_it_sleeps_until_the_next_row_falls_due(
    started: list[StepWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(clock=timezone.now)
    kernel.register(ParcelReconciler(World()))
    looks: list[list[DueRow]] = []
    due = kernel.due

    def counted(**how: Any) -> list[DueRow]:
        looks.append(due(**how))
        return looks[-1]

    monkeypatch.setattr(kernel, "due", counted)
    monkeypatch.setattr(taking, "QUIET_SECONDS", 600.0)
    parcel = Parcel.objects.create(next_at=timezone.now() + timedelta(seconds=1))
    start(started, kernel)

    eventually(lambda: Parcel.objects.get(pk=parcel.pk).state == "posted")
    time.sleep(0.3)
    # At the start, when it falls due, and when its last step has ended; every 0.02 s would be more than 60.
    assert len(looks) <= 6


def test_one_query_finds_what_is_due_of_every_kind(kernel: Kernel) -> None:
    first = Parcel.objects.create(next_at=kernel.clock() - timedelta(seconds=5), fence=3)
    second = Parcel.objects.create(next_at=kernel.clock())
    Parcel.objects.create(next_at=kernel.clock() + timedelta(seconds=1))
    Parcel.objects.create(next_at=kernel.clock(), lease_until=kernel.clock() + timedelta(seconds=1))
    Parcel.objects.create(next_at=kernel.clock(), stuck_at=kernel.clock())
    with CaptureQueriesContext(connection) as asked:
        due = kernel.due(own_for=timedelta(seconds=1))
    assert due == [DueRow("toys.parcel", first.pk, 3, True), DueRow("toys.parcel", second.pk, 0, False)]
    assert len(asked) == 1
    assert kernel.due(limit=1) == [DueRow("toys.parcel", first.pk, 3, ANY)]


def test_a_process_leaves_the_share_of_others_alone_until_it_is_late(
    kernel: Kernel, started: list[StepWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses, "give", lambda *_, **__: RowShare(2, 2))  # of which no row is
    monkeypatch.setattr(taking, "OWN_FOR", timedelta(hours=1))
    late = Parcel.objects.create(next_at=kernel.clock() - timedelta(hours=2))
    taker = StepWorker(kernel, role="sweeper", threads=2, every_seconds=0.02)
    taker._share = RowShare(2, 2)
    others = Parcel.objects.create(next_at=kernel.clock())
    started.append(taker)
    taker.start()

    eventually(lambda: Parcel.objects.get(pk=late.pk).state == "posted")
    assert Parcel.objects.get(pk=others.pk).state == "new"


def test_every_row_is_in_the_share_of_exactly_one_process() -> None:
    rows = [DueRow("releases.release", number, 0, False) for number in range(1000)]
    shares = [[row for row in rows if RowShare(index, 3).holds(row)] for index in range(3)]
    assert sorted(row for share in shares for row in share) == rows
    assert min(len(share) for share in shares) > 250


def test_a_pool_whose_threads_all_hang_is_not_said_to_take_anything(
    kernel: Kernel, started: list[StepWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    in_step: list[int] = []

    def hang(label: Label, parcel: Parcel, operation: object) -> None:
        in_step.append(parcel.pk)
        go_on.wait(60)

    monkeypatch.setattr(taking, "BLOCKED_AFTER_SECONDS", 0.2)
    monkeypatch.setattr(pulses, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(pulses, "SILENT_AFTER", timedelta(seconds=1))
    monkeypatch.setattr(Label, "act", hang)
    start(started, kernel)
    eventually(lambda: takers()["sweeper"].alive == 1)

    for _ in range(2):
        Parcel.objects.create(next_at=kernel.clock())
    # On a busy machine a sign may be late for a moment, before both threads hang.
    eventually(lambda: len(in_step) == 2 and takers()["sweeper"].hung_since is not None)

    go_on.set()
    eventually(lambda: takers()["sweeper"].alive == 1)


def test_a_step_that_hangs_for_good_makes_its_process_give_way(
    kernel: Kernel, started: list[StepWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    go_on = threading.Event()
    monkeypatch.setattr(taking, "STEP_HANGS_AFTER_SECONDS", 0.3)
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr(Label, "act", lambda self, row, operation: go_on.wait(60) and None)
    start(started, kernel, threads=4)
    Parcel.objects.create(next_at=kernel.clock())

    eventually(lambda: ended)
    go_on.set()
    assert ended[0] == taking.watchdog.REPLACE_ME


def test_who_ended_without_a_word_is_counted_once_and_forgotten() -> None:
    ours, dead = (
        ProcessIdentity("sweeper", "here", 1),
        ProcessIdentity("sweeper", "here", 4_194_305),
    )  # beyond every pid
    now = timezone.now()
    pulses.give(dead, at=now - timedelta(seconds=10), work=WorkDone(40, 2))
    assert takers()["sweeper"].hung_since == now - timedelta(seconds=10)

    for taken in (2, 3):
        assert pulses.give(ours, at=now, work=WorkDone(taken)) == RowShare(0, 1)

    found = takers()["sweeper"]
    assert (found.alive, found.silent, found.taken, found.run_out, found.lost) == (1, 0, 43, 2, 1)
    assert set(Pulse.objects.values_list("name", flat=True)) == {"sweeper", ours.name}


def test_one_that_is_stopped_together_with_its_watchdog_is_told_of_until_it_ends() -> None:
    ours, far = ProcessIdentity("worker", "here", 1, "box"), ProcessIdentity("worker", "there", 2, "tower")
    process = subprocess.Popen(["sleep", "60"])
    hung = ProcessIdentity("sweeper", "here", process.pid, "box")
    # By now it is long silent. (A process that began after its last sign would be another one.)
    last = timezone.now() - timedelta(minutes=5)
    try:
        process.send_signal(signal.SIGSTOP)
        pulses.give(hung, at=last, work=WorkDone(1))
        with patch.object(psutil.Process, "create_time", lambda _: last.timestamp() - 60):
            for sign in (ours, far, ours):
                pulses.give(sign, at=timezone.now(), work=WorkDone(1))
        assert takers()["sweeper"].silent == 1
        with pytest.raises(Unhealthy) as told:
            health._sweeper()
        assert hung.name in str(told.value.words)
    finally:
        process.kill()
        process.wait()
    pulses.give(ours, at=timezone.now(), work=WorkDone(1))
    assert (takers()["sweeper"].silent, takers()["sweeper"].lost) == (0, 1)


def test_a_silent_process_of_another_machine_is_told_of_for_a_minute() -> None:
    ours, far = (
        ProcessIdentity("sweeper", "here", 1, "box"),
        ProcessIdentity("worker", "there", 4_194_305, "tower"),
    )
    now = timezone.now()
    pulses.give(far, at=now - timedelta(seconds=30), work=WorkDone(1))
    pulses.give(ours, at=now, work=WorkDone(1))
    assert takers()["worker"].silent == 1

    Pulse.objects.filter(name=far.name).update(at=now - timedelta(minutes=2))
    pulses.give(ours, at=now, work=WorkDone(1))
    assert (takers()["worker"].silent, takers()["worker"].lost) == (0, 1)
