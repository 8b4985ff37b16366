"""What check Jobs report, as readings."""

import json
import math
from typing import Any

import pytest

from gpu_health.policy.presets import faults, preset
from gpu_health.signals.check_reports import FAULTS, CheckReport, NotAReport, read_report, readings
from gpu_health.signals.reading import GpuReading, ReadingKind, ReadingSource

pytestmark = pytest.mark.any_database


def check(name: str, outcome: str = "passed", **more: object) -> dict[str, Any]:
    return {"name": name, "outcome": outcome, "words": "as seen", "gpu_bus_id": "0000:9b:00", **more}


def report(*checks: dict[str, Any], passed: bool = False) -> CheckReport:
    told = {"level": 2, "passed": passed, "seconds": 120.4, "devices": ["NVIDIA L4"], "checks": list(checks)}
    return read_report(json.loads(json.dumps(told)))


def told(*checks: dict[str, Any]) -> list[tuple[str, ReadingKind]]:
    return [(one.fault, one.kind) for one in readings(report(*checks), at=5.0, origin="job-1")]


def test_a_check_that_failed_is_a_reading_with_its_figures_and_words() -> None:
    (one,) = readings(
        report(check("host_to_gpu", "failed", measured=11.2, expected=18.9, unit="GB/s")),
        at=5.0,
        origin="job-1",
        node="m1",
    )

    assert (one.source, one.fault, one.kind) == (
        ReadingSource.CHECK,
        "check.pcie_bandwidth",
        ReadingKind.FAULT,
    )
    assert (one.node, one.gpu_bus_id, one.value, one.raw) == ("m1", "0000:9b:00", 11.2, "as seen")
    assert one.detail("expected") == "18.9"
    assert GpuReading.from_dict(one.to_dict()) == one


def test_a_figure_that_is_right_again_clears_its_fault() -> None:
    assert told(check("compute")) == [("check.compute", ReadingKind.CLEARED)]


def test_the_link_is_cleared_only_when_both_directions_are_right() -> None:
    assert told(check("host_to_gpu"), check("gpu_to_host", "failed")) == [
        ("check.pcie_bandwidth", ReadingKind.FAULT)
    ]
    assert told(check("host_to_gpu"), check("gpu_to_host")) == [("check.pcie_bandwidth", ReadingKind.CLEARED)]


@pytest.mark.parametrize("name", ["matrix_products", "memory_patterns", "answers", "dcgm_diagnostic"])
def test_one_pass_clears_no_corruption_and_no_hang(name: str) -> None:
    assert told(check(name)) == []


@pytest.mark.parametrize("outcome", ["skipped", "measured"])
def test_what_was_not_judged_says_nothing(outcome: str) -> None:
    assert told(check("compute", outcome)) == []


def test_a_check_of_a_newer_program_is_left_alone() -> None:
    assert told(check("quantum_flux", "failed")) == []


def test_two_failures_of_one_fault_on_one_gpu_are_one_reading() -> None:
    assert len(told(check("host_to_gpu", "failed"), check("gpu_to_host", "failed"))) == 1


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([], "a report is an object"),
        ({}, "checks must be a list"),
        ({"checks": []}, "passed must be"),
        ({"checks": [3], "passed": True}, "a check is an object"),
        ({"checks": [{"name": "a"}], "passed": True}, "a name and an outcome"),
        ({"checks": [check("a", measured="much")], "passed": False}, "measured must be a number"),
        ({"checks": [check("a", measured=math.inf)], "passed": False}, "measured must be a finite number"),
        ({"checks": [check("a", "failed")], "passed": True}, "it passed, and one of its checks failed"),
    ],
)
def test_what_is_no_report_is_refused_with_its_reason(told: object, words: str) -> None:
    with pytest.raises(NotAReport, match=words):
        read_report(told)


def test_every_fault_of_a_check_has_a_name_and_a_rule() -> None:
    ruled = {rule.fault for rule in preset("default")}

    assert set(FAULTS.values()) <= set(faults())
    assert set(FAULTS.values()) <= ruled
