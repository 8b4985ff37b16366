"""What the sources say, as data."""

import pytest

from gpu_health.actions.table import KINDS
from gpu_health.healing.facts import FOR_PEOPLE, TOLD_ONLY
from gpu_health.judge import judge
from gpu_health.policy.presets import (
    PRESETS,
    conditions_of,
    conditions_text,
    fault_title,
    faults,
    preset,
    sources,
)
from gpu_health.policy.rule import BadRule, FaultRule, Mode
from gpu_health.signals.reading import GpuReading, ReadingSource, details
from gpu_health.signals.xid import read

NAMES = [one.name for one in PRESETS]


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_of_a_preset_acts_by_itself(name: str) -> None:
    assert all(rule.mode is not Mode.ACT for rule in preset(name))


def acts(name: str, fault: str) -> bool:
    return any(rule.acts_on_node for rule in preset(name) if rule.fault == fault)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_cites_a_document_that_is_named_and_has_a_name_of_its_own(name: str) -> None:
    rules = preset(name)

    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.citation.source in sources(), rule.name
        assert rule.citation.says, rule.name
        assert conditions_of(conditions_text(rule.conditions)) == rule.conditions


def test_no_preset_acts_by_itself() -> None:
    """A person decides: what acts is switched on, never shipped."""
    assert {str(rule.mode) for name in NAMES for rule in preset(name)} == {"record", "propose"}


@pytest.mark.parametrize("name", NAMES)
def test_no_preset_offers_what_slipway_cannot_do(name: str) -> None:
    offered = {action for rule in preset(name) for action in rule.ladder}
    assert offered <= {*KINDS, *FOR_PEOPLE, *TOLD_ONLY}


REGISTERS = "NVLink: fatal error detected on link 14({}, 0x0, {}, {}, {}, 0x0, 0x0)"


@pytest.mark.parametrize(
    ("registers", "ladder"),
    [
        ((0x4000_0001, 0, 0, 0), ["ignore"]),
        ((0x0080_0000, 0, 0, 0), ["ignore"]),
        ((0, 0, 0, 0x0010_0000), ["alert"]),
        ((0x2, 0, 0x1_0000, 0), ["alert", "contact_support"]),
        ((0x4001_0001, 0, 0, 0), ["reset_gpu", "reboot", "replace"]),
        ((0, 0x1, 0, 0), ["reset_gpu", "reboot", "replace"]),
        ((0x1, 0, 0x4_0000, 0), ["reset_gpu", "reboot", "replace"]),
        ((0, 0, 0, 0), ["reset_gpu", "reboot", "replace"]),
    ],
)
def test_an_nvlink_error_is_judged_by_the_bits_of_its_registers(
    registers: tuple[int, ...], ladder: list[str]
) -> None:
    text = read(74, REGISTERS.format(*map(hex, registers)))
    reading = GpuReading(
        source=ReadingSource.KERNEL_LOG,
        fault=text.fault,
        details=details(text.details),
        gpu_bus_id="0000:9b:00",
    )
    (verdict,) = judge([reading], preset("default"))
    assert verdict.ladder == tuple(ladder)


def test_an_nvlink_error_whose_registers_are_not_told_is_a_fault() -> None:
    for source in (ReadingSource.NVML, ReadingSource.NODE_CONDITION):
        (verdict,) = judge([GpuReading(source=source, fault="xid.74")], preset("default"))
        assert verdict.outcome == "propose"


@pytest.mark.parametrize(("severity", "acts"), [("fatal", True), ("nonfatal", False)])
def test_gpud_leaves_a_machine_alone_whose_nvlink5_error_is_not_fatal(severity: str, acts: bool) -> None:
    told = GpuReading(
        source=ReadingSource.KERNEL_LOG, fault="xid.149", details=details({"severity": severity})
    )
    (verdict,) = judge([told], preset("gpud"))
    assert (verdict.outcome == "propose") is acts


def test_the_default_knows_every_fault_that_has_a_title() -> None:
    known = {rule.fault for rule in preset("default")}

    assert {fault for fault in faults() if not fault.startswith("xid.")} <= known


def test_five_xids_alone_are_node_actions_for_every_source() -> None:
    xids = [fault for fault in faults() if fault.startswith("xid.")]
    speaking = [one.name for one in PRESETS if one.speaks_of_machines]
    everyone = [fault for fault in xids if all(acts(name, fault) for name in speaking)]

    assert everyone == ["xid.48", "xid.64", "xid.79", "xid.119", "xid.120"]


def test_titles_are_the_vendors() -> None:
    assert fault_title("xid.79") == "Xid 79: GPU has fallen off the bus"
    assert fault_title("xid.9999") == "Xid 9999"
    assert fault_title("ecc.double_bit") == "Double-bit ECC error"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("count", "write name=value"),
        ("count=two", "that is no number"),
        ("colour=red", "There is no condition"),
    ],
)
def test_conditions_that_cannot_be_read_are_refused(text: str, words: str) -> None:
    with pytest.raises(BadRule, match=words):
        conditions_of(text)


def test_there_is_no_other_preset() -> None:
    with pytest.raises(BadRule, match="choose one of default, nvidia"):
        preset("amd")
    assert all(isinstance(rule, FaultRule) for rule in preset("nvidia"))
