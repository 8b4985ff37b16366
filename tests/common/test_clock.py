"""Hosts whose clocks are minutes apart go by the database's, and say that theirs is off."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from accounts.errors import InvalidToken
from accounts.models import ApiToken
from accounts.services.tokens import use_token
from common import clock
from common.health import Unhealthy
from common.models import Pulse
from common.reconcile import Kernel, pulses, silent_hosts
from common.reconcile.pulses import ProcessIdentity, WorkDone
from controlplane import health
from tests.cast import person, token_of
from tests.toys.models import Parcel
from tests.toys.parcels import ParcelReconciler, World

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
MINUTES = [-5, 5]
real_now, real_seconds = timezone.now, clock.time.time


@pytest.fixture
def on_a_host(monkeypatch) -> Callable[[float], None]:
    """Return a function that sets the host's clock so many minutes ahead for this process."""

    def move(minutes: float) -> None:
        ahead = timedelta(minutes=minutes)
        monkeypatch.setattr(timezone, "now", lambda: real_now() + ahead)
        monkeypatch.setattr(clock.time, "time", lambda: real_seconds() + ahead.total_seconds())
        if connection.vendor == "postgresql":
            clock.measure()
        else:
            # The mechanism without its measurement: SQLite's clock is the host's.
            monkeypatch.setattr(clock, "_skew", -ahead)
            monkeypatch.setattr(clock, "_measured_at", float("inf"))

    monkeypatch.setattr(clock, "_skew", timedelta(0))
    monkeypatch.setattr(clock, "_measured_at", clock._measured_at)
    return move


def kernel() -> Kernel:
    made = Kernel()
    made.register(ParcelReconciler(World()))
    return made


def is_now(moment: datetime) -> bool:
    return abs(moment - real_now()) < timedelta(seconds=5)


@pytest.mark.parametrize("minutes", MINUTES)
def test_the_time_is_the_databases(on_a_host, minutes):
    on_a_host(minutes)
    assert is_now(clock.now())
    assert abs(clock.seconds() - real_seconds()) < 5
    assert abs(clock.skew_seconds() + minutes * 60) < 5


def test_a_host_that_ntp_keeps_uses_its_own_clock(on_a_host):
    on_a_host(0.01)
    assert abs(clock.now() - timezone.now()) < timedelta(milliseconds=100)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite asks nobody")
def test_an_answer_that_took_long_changes_nothing(on_a_host, monkeypatch):
    on_a_host(5)
    known = clock.skew_seconds()
    ticks = iter(range(0, 1000, 60))
    monkeypatch.setattr(clock.time, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(timezone, "now", real_now)
    clock.measure()
    assert clock.skew_seconds() == known


@pytest.mark.parametrize("minutes", MINUTES)
def test_a_token_ends_by_the_databases_clock_and_says_when_it_was_made(on_a_host, minutes):
    owner = person("ada")
    ends = real_now() + timedelta(minutes=2)
    text = token_of(owner, expires_at=ends)
    on_a_host(minutes)
    assert use_token(text).owner == owner
    assert is_now(ApiToken(owner=owner).created_at)
    ApiToken.objects.update(expires_at=real_now() - timedelta(minutes=2))
    with pytest.raises(InvalidToken):
        use_token(text)


def test_no_column_of_ours_is_filled_by_the_clock_of_the_host():
    filled = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.fields
        if field.default is real_now and not model.__module__.startswith(("django.", "allauth."))
    }
    # Django's own, which nothing is decided by.
    assert filled == {"accounts.User.date_joined"}


@pytest.mark.parametrize("minutes", MINUTES)
def test_no_process_is_taken_for_one_that_hangs_and_no_host_for_a_silent_one(on_a_host, minutes):
    on_a_host(minutes)
    pulses.give(
        ProcessIdentity("sweeper", "far", 1, "far"), at=clock.now(), work=WorkDone(skew=clock.skew_seconds())
    )
    on_a_host(0)
    found = pulses.takers()["sweeper"]
    assert (found.alive, found.silent) == (1, 0)
    assert "far" in pulses.living_hosts()
    assert not silent_hosts.waiting(kernel())
    pulses.give(ProcessIdentity("sweeper", "near", 2, "near"), at=clock.now(), work=WorkDone())
    assert Pulse.objects.filter(host="far", pid=1).exists()


@pytest.mark.parametrize("minutes", MINUTES)
def test_nothing_is_taken_early_and_no_lease_runs_out_on_another_host(on_a_host, minutes):
    later = Parcel.objects.create(next_at=clock.now() + timedelta(minutes=2))
    held = Parcel.objects.create(next_at=clock.now() - timedelta(minutes=1))
    first, second = kernel(), kernel()
    row = first._claim(first.reconciler("toys.parcel"), held.pk, None, None)
    assert row is not None
    on_a_host(minutes)
    assert second.due() == []
    assert second._claim(second.reconciler("toys.parcel"), held.pk, None, None) is None
    assert second._claim(second.reconciler("toys.parcel"), later.pk, None, None) is None
    assert second.leases_run_out == 0


@pytest.mark.parametrize("minutes", MINUTES)
def test_what_a_host_has_scheduled_is_due_on_the_others_in_time(on_a_host, minutes):
    on_a_host(minutes)
    parcel = Parcel.objects.create(next_at=clock.now() + timedelta(minutes=2))
    assert kernel().wake(parcel)
    on_a_host(0)
    parcel.refresh_from_db()
    assert is_now(parcel.next_at)


def test_a_host_that_is_off_is_named(on_a_host):
    health.clocks()
    at, sign = clock.now(), ProcessIdentity("worker", "far", 1, "far")
    pulses.give(sign, at=at, work=WorkDone(skew=-300.2))
    with pytest.raises(Unhealthy, match=r"far \(\+300 s\)"):
        health.clocks()
    pulses.give(sign, at=at, work=WorkDone(skew=0.3))
    on_a_host(-5)
    with pytest.raises(Unhealthy, match=r"\(-300 s\); check NTP there"):
        health.clocks()
