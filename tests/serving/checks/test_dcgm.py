"""`dcgmi diag -j` of both releases."""

import json
from pathlib import Path

import pytest

from serving.checks import dcgm
from serving.checks.device import DeviceUnderTest
from serving.checks.report import CheckOutcome, DeviceCheck

pytestmark = pytest.mark.any_database


def third(status: str, **more: object) -> str:
    results = [{"gpu_ids": "0", "status": "Pass"}, {"gpu_ids": "3", "status": status, **more}]
    category = {"category": "Hardware", "tests": [{"name": "PCIe", "results": results}]}
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": [category]}})


def fourth(status: str) -> str:
    warnings = [{"warning": "low bandwidth", "error_id": 9}]
    result = {"entity_group": "GPU", "entity_id": 5, "status": status, "warnings": warnings}
    category = {"category": "Integration", "tests": [{"name": "pcie", "results": [result]}]}
    return json.dumps({"DCGM Diagnostic": {"test_categories": [category]}, "entity_groups": []})


GPUS = {
    "0": DeviceUnderTest("cuda", 0, "NVIDIA A100", "GPU-aa", "0000:07:00"),
    "3": DeviceUnderTest("cuda", 1, "NVIDIA A100", "GPU-bb"),
}
LISTED = """2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA A100-SXM4-80GB                                          |
|        | PCI Bus ID: 00000000:07:00.0                                         |
|        | Device UUID: GPU-aa                                                  |
+--------+----------------------------------------------------------------------+
| 3      | Name: NVIDIA A100-SXM4-80GB                                          |
|        | PCI Bus ID: 00000000:0F:00.0                                         |
|        | Device UUID: GPU-bb                                                  |
+--------+----------------------------------------------------------------------+
"""


def outcomes(checks: list[DeviceCheck]) -> dict[str, CheckOutcome]:
    return {check.gpu_uuid: check.outcome for check in checks}


def test_each_gpu_has_an_outcome_of_its_own() -> None:
    assert outcomes(dcgm.read(third("Pass"), GPUS)) == {
        "GPU-aa": CheckOutcome.PASSED,
        "GPU-bb": CheckOutcome.PASSED,
    }
    assert outcomes(dcgm.read(third("Skip"), GPUS)) == {
        "GPU-aa": CheckOutcome.PASSED,
        "GPU-bb": CheckOutcome.SKIPPED,
    }
    assert outcomes(dcgm.read(third("Warn"), GPUS))["GPU-bb"] is CheckOutcome.WARNED


def test_a_result_of_several_gpus_is_of_each() -> None:
    both = third("Pass").replace('"gpu_ids": "0"', '"gpu_ids": "0,3"')

    assert [check.words for check in dcgm.read(both, GPUS)] == [
        "1 tests of DCGM passed.",
        "2 tests of DCGM passed.",
    ]


def test_tests_of_the_software_alone_are_no_pass_of_a_gpu() -> None:
    software = third("Pass").replace("Hardware", "Deployment")

    assert set(outcomes(dcgm.read(software, GPUS)).values()) == {CheckOutcome.SKIPPED}


def test_a_test_that_failed_is_told_in_dcgms_words_with_its_gpu() -> None:
    bad = dcgm.read(third("Fail", warnings="Replays exceed the limit"), GPUS)[1]
    assert (bad.outcome, bad.gpu_uuid) == (CheckOutcome.FAILED, "GPU-bb")
    assert bad.words == "PCIe on GPU 3: Replays exceed the limit"

    (unknown,) = dcgm.read(fourth("Fail"), GPUS)
    assert (unknown.words, unknown.gpu_uuid) == ("pcie on GPU 5: low bandwidth", "")


@pytest.mark.parametrize("text", ["", "Error: no host engine", "[]", "{", '{"DCGM GPU Diagnostic": {}}'])
def test_what_is_no_report_says_nothing(text: str) -> None:
    assert dcgm.read(text, GPUS) == []


def installed(directory: Path, monkeypatch: pytest.MonkeyPatch, diagnostic: str) -> None:
    monkeypatch.setenv("PATH", f"{directory}:/bin:/usr/bin")
    tool = directory / "dcgmi"
    listing = f"if [ $1 = discovery ]; then cat {directory}/listed; else {diagnostic}; fi"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {directory}/asked\n{listing}\n')
    tool.chmod(0o755)
    (directory / "listed").write_text(LISTED)


def test_without_dcgm_the_check_is_skipped_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    (check,) = dcgm.check(2, 5.0, [*GPUS.values()])

    assert check.outcome is CheckOutcome.SKIPPED
    assert "DCGM is not installed" in check.words
    assert dcgm.check(0, 5.0, [*GPUS.values()]) == []


def test_dcgm_that_cannot_run_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "echo 'Error: unable to connect to the host engine'; exit 1")

    (check,) = dcgm.check(2, 5.0, [*GPUS.values()])

    assert check.outcome is CheckOutcome.SKIPPED
    assert "unable to connect" in check.words


def test_dcgm_is_asked_for_the_chosen_gpus_by_its_own_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "told").write_text(third("Pass"))
    installed(tmp_path, monkeypatch, f"cat {tmp_path}/told")

    checks = dcgm.check(2, 5.0, [GPUS["3"]])

    assert (tmp_path / "asked").read_text().splitlines()[1] == "diag -r 2 -j -i 3"
    assert [check.gpu_uuid for check in checks if check.gpu_uuid] == ["GPU-bb"]
