"""What the sources say, as data."""

import pytest

from gpu_health.policy.presets import (
    PRESETS,
    conditions_of,
    conditions_text,
    fault_title,
    faults,
    preset,
    sources,
)
from gpu_health.policy.rule import BadRule, Rule

NAMES = [one.name for one in PRESETS]


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


def test_the_default_knows_every_fault_that_has_a_title() -> None:
    known = {rule.fault for rule in preset("default")}

    assert {fault for fault in faults() if not fault.startswith("xid.")} <= known


def test_five_xids_alone_are_node_actions_for_every_source() -> None:
    xids = [fault for fault in faults() if fault.startswith("xid.")]
    everyone = [fault for fault in xids if all(acts(name, fault) for name in NAMES)]

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
    assert all(isinstance(rule, Rule) for rule in preset("nvidia"))
