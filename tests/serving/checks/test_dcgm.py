"""`dcgmi diag -j` of both releases."""

import json
from pathlib import Path

import pytest

from serving.checks import dcgm
from serving.checks.report import Outcome

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


def test_tests_that_passed_are_one_check() -> None:
    (check,) = dcgm.read(third("Skip"))

    assert check.outcome is Outcome.PASSED
    assert check.words == "1 tests of DCGM passed."


def test_a_test_that_failed_is_told_in_dcgms_words_with_its_gpu() -> None:
    (check,) = dcgm.read(third("Fail", warnings="Replays exceed the limit"))
    assert check.outcome is Outcome.FAILED
    assert check.words == "PCIe on GPU 3: Replays exceed the limit"

    (check,) = dcgm.read(fourth("Fail"))
    assert check.words == "pcie on GPU 5: low bandwidth"


@pytest.mark.parametrize("text", ["", "Error: no host engine", "[]", "{", '{"DCGM GPU Diagnostic": {}}'])
def test_what_is_no_report_says_nothing(text: str) -> None:
    assert dcgm.read(text) == []


def test_without_dcgm_nothing_is_asked_and_with_one_that_cannot_run_it_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dcgm.check(2, 5.0) == []

    tool = tmp_path / "dcgmi"
    tool.write_text("#!/bin/sh\necho 'Error: unable to connect to the host engine'\nexit 1\n")
    tool.chmod(0o755)
    (check,) = dcgm.check(2, 5.0)
    assert check.outcome is Outcome.SKIPPED
    assert "unable to connect" in check.words
