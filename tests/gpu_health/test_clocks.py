"""A machine whose clock is wrong: a fresh fault stays fresh, a stale one stale, and the clock is told."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from gpu_health.clock_offsets import offset_of
from gpu_health.models import Finding, StoredReading
from gpu_health.services.readings import accept_readings
from tests.gpu_health.conftest import Machine

pytestmark = pytest.mark.django_db


def says(machine: Machine, *, clock_off: float, seconds_ago: float, origin: str) -> Any:
    """A fault that was seen so long ago, by a clock that is so many seconds ahead."""
    entry = machine.entry("xid.79", origin, seconds_ago=seconds_ago - clock_off)
    return accept_readings(
        cluster_id=machine.node.cluster_id,
        node_uid=machine.node.uid,
        entries=[entry],
        sent_at=timezone.now().timestamp() + clock_off,
    )


def age(origin: str) -> timedelta:
    row = StoredReading.objects.get(origin=origin)
    return row.received_at - row.at


@pytest.mark.parametrize("clock_off", [-300.0, 300.0, -40 * 86_400.0, 86_400.0])
def test_a_fault_is_as_old_as_it_is_whatever_the_machines_clock_says(
    machine: Machine, clock_off: float
) -> None:
    says(machine, clock_off=clock_off, seconds_ago=20.0, origin="boot/1")
    assert abs(age("boot/1").total_seconds() - 20) < 5
    told = Finding.objects.get(fault="clock.offset")
    assert (told.outcome, told.severity) == ("record", "warning")
    assert ("ahead" if clock_off > 0 else "behind") in told.raw


def test_the_way_of_a_report_is_no_offset(machine: Machine) -> None:
    says(machine, clock_off=-9.0, seconds_ago=0.0, origin="boot/1")
    assert 5 < age("boot/1").total_seconds() < 15
    assert not Finding.objects.filter(fault="clock.offset").exists()


def test_a_clock_that_is_right_again_is_told_once(machine: Machine) -> None:
    says(machine, clock_off=-300.0, seconds_ago=0.0, origin="boot/1")
    says(machine, clock_off=0.0, seconds_ago=0.0, origin="boot/2")
    assert Finding.objects.get(fault="clock.offset").state == "cleared"
    stored = StoredReading.objects.count()
    says(machine, clock_off=0.0, seconds_ago=0.0, origin="boot/3")
    assert StoredReading.objects.count() == stored + 1


def test_a_sender_that_says_nothing_or_nonsense_is_believed_as_before(machine: Machine) -> None:
    now = timezone.now()
    assert [offset_of(one, now) for one in (None, 0.0, -5.0, 1e300)] == [0.0] * 4
    answer = machine.report(machine.entry("xid.79", "boot/1"))
    assert answer.json()["stored"] == 1
