"""A row that needs a host is taken by processes of that one alone, and says so when there are none."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from common import hosts
from common.models import Pulse
from common.reconcile import DueRow, Kernel, Reconciler, Step, StepOutcome, silent_hosts, wait
from common.reconcile.pulses import ProcessIdentity, RowShare, WorkDone, give
from common.reconcile.trouble import troubled
from tests.crash.harness import Clock, worker
from tests.toys.models import Parcel

pytestmark = pytest.mark.django_db


class Carry(Step[Parcel]):
    name = "carry"

    def settle(self, row: Parcel, seen: None, now: datetime) -> StepOutcome:
        return wait(timedelta(seconds=1))


class Porters(Reconciler[Parcel]):
    """A parcel's state names the host that has it; `anywhere`: none has."""

    model = Parcel
    max_attempts = None

    def host_of(self, row: Parcel) -> str:
        return "" if row.state == "anywhere" else row.state

    def next_step(self, row: Parcel, now: datetime) -> Step[Parcel]:
        return Carry()


class Movers(Porters):
    waits_for_host = False

    def host_of(self, row: Parcel) -> str:
        return row.state if Pulse.objects.filter(host=row.state).exists() else ""


def at(host: str, reconciler: Reconciler[Parcel] | None = None, clock: Clock | None = None) -> Kernel:
    kernel = worker([reconciler or Porters()], clock or Clock(timezone.now()))
    kernel.host = lambda: host
    return kernel


def parcel(state: str) -> Parcel:
    return Parcel.objects.create(state=state, next_at=timezone.now() - timedelta(minutes=1))


def turns(row: Parcel, kernel: Kernel) -> int:
    """Return how many steps the kernel takes of the row."""
    return kernel.advance("toys.parcel", row.pk)


def test_a_row_is_taken_by_its_host_alone_whoever_looks_first() -> None:
    row, anybodys = parcel("prague"), parcel("anywhere")
    assert turns(row, at("brno")) == 0
    row.refresh_from_db()
    assert (row.lane_host, row.attempts, row.lease_until.year) == ("prague", 0, 1970)
    assert [one.id for one in at("brno").due()] == [anybodys.pk]
    assert turns(row, at("brno")) == 0
    assert at("prague").due()[0].is_hosts
    assert (turns(row, at("prague")), turns(anybodys, at("brno"))) == (1, 1)


def test_a_wish_may_give_it_another_host() -> None:
    row = parcel("prague")
    assert turns(row, at("prague")) == 1
    assert at("brno").wake(row, state="brno")
    assert turns(row, at("brno")) == 1


def test_the_share_of_a_host_s_rows_is_counted_among_its_own_processes() -> None:
    now = timezone.now()
    shares = [
        give(ProcessIdentity("worker", host, pid, machine), at=now, work=WorkDone())
        for _ in range(2)
        for host, machine, pid in (("prague", "box", 1), ("brno", "tower", 1), ("brno", "tower", 2))
    ][3:]
    assert [(share.of, share.of_here) for share in shares] == [(3, 1), (3, 2), (3, 2)]
    rows = [DueRow("toys.parcel", number, 0, False, is_hosts=True) for number in range(100)]
    assert all(shares[0].holds(row) for row in rows)
    assert all(shares[1].holds(row) is not shares[2].holds(row) for row in rows)
    assert RowShare(0, 2) == RowShare(0, 2, 0, 1)


def test_who_waits_for_a_silent_host_says_so_until_somebody_is_there() -> None:
    row, clock = parcel("prague"), Clock(timezone.now())
    turns(row, at("brno"))
    brno = at("brno", clock=clock)
    silent_hosts.attend(brno)
    row.refresh_from_db()
    assert "prague gives no sign of life" in row.last_error
    clock.pass_(timedelta(minutes=3))
    assert [one.id for one in troubled(kernel=brno)] == [row.pk]
    assert silent_hosts.rows_by_host(silent_hosts.waiting(brno)) == {"prague": 1}

    give(ProcessIdentity("sweeper", "prague", 1, "box"), at=timezone.now(), work=WorkDone())
    assert silent_hosts.waiting(brno) == []
    assert turns(row, at("prague", clock=clock)) == 1
    row.refresh_from_db()
    assert (row.last_error, row.failed_since) == ("", None)


def test_what_can_go_on_elsewhere_does_when_its_host_is_gone() -> None:
    sign = ProcessIdentity("sweeper", "prague", 1, "box")
    give(sign, at=timezone.now(), work=WorkDone())
    row = parcel("prague")
    brno = at("brno", Movers())
    assert turns(row, brno) == 0
    silent_hosts.attend(brno)
    assert turns(row, brno) == 0
    Pulse.objects.all().delete()
    silent_hosts.attend(brno)
    assert turns(row, brno) == 1


def test_where_no_row_needs_a_host_one_query_says_so() -> None:
    parcel("anywhere")
    with CaptureQueriesContext(connection) as asked:
        silent_hosts.attend(at("brno"))
    assert len(asked) == 1


def test_a_host_has_the_name_that_is_set_or_one_that_its_home_keeps(settings, tmp_path) -> None:
    settings.SLIPWAY_HOST = ""
    settings.SLIPWAY_HOME = tmp_path / "a"
    name = hosts.this_host()
    assert name == (tmp_path / "a/host").read_text().strip()
    hosts._kept_in.cache_clear()
    assert hosts.this_host() == name
    settings.SLIPWAY_HOME = tmp_path / "b"
    assert hosts.this_host() != name
    settings.SLIPWAY_HOST = "prague"
    assert hosts.this_host() == "prague"
