"""A fact of one start of a machine says nothing about another, and no storm pushes out what rules need."""

from dataclasses import replace

import pytest
from django.utils import timezone

from clusters.models import Node
from gpu_health.judge import JudgedNode, judge
from gpu_health.models import Finding, Incident, StoredReading
from gpu_health.policy.presets import preset
from gpu_health.policy.rule import RemediationAction
from gpu_health.rulebook import MOST_OF_A_NODE, readings_of
from gpu_health.services.readings import accept_readings
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind, ReadingSource
from tests.gpu_health.conftest import Machine
from tests.gpu_health.readings import GPU, asks_for, seen, xid

DEFAULT = preset("default")
R570 = JudgedNode(driver_version="570.86.15")


def of_boot(reading: GpuReading, boot: str) -> GpuReading:
    return replace(reading, boot=boot)


def ladder_of_119(*readings: GpuReading, state: JudgedNode = R570) -> tuple[RemediationAction, ...]:
    return {one.fault: one.ladder for one in judge(readings, DEFAULT, state)}["xid.119"]


def test_what_the_driver_asked_for_is_valid_in_its_own_start_only() -> None:
    asked, later = of_boot(asks_for(2, 1.0), "a"), of_boot(xid(119, 90.0), "b")

    assert ladder_of_119(asked, of_boot(xid(119, 90.0), "a"))[0] is RemediationAction.REBOOT
    assert ladder_of_119(asked, later)[0] is RemediationAction.RESET_GPU
    assert ladder_of_119(asked, xid(119, 90.0), state=JudgedNode(boot="b"))[0] is RemediationAction.RESET_GPU


@pytest.mark.parametrize(
    "restart",
    [
        seen("driver.version", 50.0, kind=ReadingKind.FACT, version="570.86.15"),
        asks_for(0, 50.0),
        seen("gpu.recovery_action", 50.0, gpu=GPU, kind=ReadingKind.CLEARED),
    ],
    ids=["the driver was loaded", "it asks for nothing now", "its source took it back"],
)
def test_what_the_driver_asked_for_is_over_once_it_was_done(restart: GpuReading) -> None:
    assert ladder_of_119(asks_for(2, 1.0), restart, xid(119, 90.0))[0] is RemediationAction.RESET_GPU


def test_a_log_of_two_starts_keeps_them_apart() -> None:
    def at(reading: GpuReading, seconds: float) -> GpuReading:
        return replace(reading, at=seconds, clock=ReadingClock.BOOT)

    asked = at(asks_for(2), 5_000.0)

    assert ladder_of_119(asked, at(xid(119), 4_990.0))[0] is RemediationAction.REBOOT
    assert ladder_of_119(asked, at(xid(119), 12.0))[0] is RemediationAction.RESET_GPU


def sends(machine: Machine, *entries: dict[str, object], boot: str) -> None:
    accept_readings(
        cluster_id=machine.node.cluster_id, node_uid=machine.node.uid, entries=list(entries), boot=boot
    )


@pytest.mark.parametrize("source", ["nvml", "kernel_log"])
def test_a_spooled_reading_of_a_former_start_opens_no_incident(machine: Machine, source: str) -> None:
    entry = machine.entry("xid.79", "session/1", source=source, boot="former")

    sends(machine, entry, boot="present")
    assert not Incident.objects.exists()
    sends(machine, machine.entry("xid.79", "session/2", source=source, boot="present"), boot="present")
    assert Incident.objects.count() == 1


def test_the_state_that_an_agent_tells_as_it_starts_ends_what_is_gone(machine: Machine) -> None:
    level = {"source": "nvml", "details": {"level": "yes"}}
    sends(machine, machine.entry("row_remap.pending", "first/1", **level), boot="a")
    sends(machine, machine.entry("ecc.double_bit", "first/2", source="nvml"), boot="a")
    assert set(Finding.objects.values_list("state", flat=True)) == {"open"}

    state = machine.entry("source.state", "second/1", source="nvml", kind="fact", boot="b")
    sends(machine, state, boot="b")

    assert Finding.objects.get(fault="row_remap.pending").state == "cleared"
    assert Finding.objects.get(fault="ecc.double_bit").state == "open"


def test_a_storm_of_harmless_lines_pushes_out_nothing_that_a_rule_needs(machine: Machine) -> None:
    link = {"details": {"bucket": "fault", "link": "3"}}
    old = [machine.entry("xid.74", f"boot/{day}", seconds_ago=day * 86_400.0, **link) for day in (2, 1)]
    machine.sees(*old, machine.entry("xid.31", "boot/3", seconds_ago=7_200.0, details={"process": "other"}))
    now = timezone.now()
    StoredReading.objects.bulk_create(
        StoredReading(
            node=machine.node,
            source=ReadingSource.KERNEL_LOG,
            fault=fault,
            kind=ReadingKind.FAULT,
            at=now,
            gpu_bus_id=GPU,
            details={"process": "train"},
            origin=f"storm/{fault}/{number}",
        )
        for fault in ("xid.43", "xid.31")
        for number in range(MOST_OF_A_NODE // 2 + 50)
    )
    machine.sees(machine.entry("xid.74", "boot/4", **link))

    assert Finding.objects.get(fault="xid.74").ladder == ["replace"]
    assert "field_diagnostic" in Finding.objects.get(fault="xid.31").ladder
    assert len(readings_of(Node.objects.get(pk=machine.node.pk))) < 100
