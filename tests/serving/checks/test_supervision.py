"""Devices side by side: who is silent, who computes otherwise than the rest, and the report of all."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from serving.checks import __main__ as command
from serving.checks import collective, one_device, supervision
from serving.checks.cpu_time import starved_seconds
from serving.checks.device import DeviceUnderTest, processor
from serving.checks.expectations import expected_of
from serving.checks.levels import LEVELS
from serving.checks.report import CheckOutcome, DeviceCheck, Report

pytestmark = [pytest.mark.process, pytest.mark.any_database]
QUICK = replace(LEVELS[1], matrix=0, memory=0, bandwidth=0, load=0, all_reduce=0)


def gpu(number: int, model: str = "NVIDIA A100-SXM4-80GB") -> DeviceUnderTest:
    return DeviceUnderTest("cpu", number, model, f"GPU-{number}", f"0000:0{number}:00")


def well(target: DeviceUnderTest, level: Any, link: Any, say: Any) -> None:
    say.put(target.check("matrix_products", CheckOutcome.PASSED, "fine"))
    say.put(one_device.ENDED)


def dies(target: DeviceUnderTest, level: Any, link: Any, say: Any) -> None:
    if target.index:
        os._exit(9)
    well(target, level, link, say)


def hangs(target: DeviceUnderTest, level: Any, link: Any, say: Any) -> None:
    if target.index:
        time.sleep(600)
    well(target, level, link, say)


def is_busy(target: DeviceUnderTest, level: Any, link: Any, say: Any) -> None:
    say.put(target.check("is_idle", CheckOutcome.SKIPPED, "Somebody computes on it (process 7)."))
    say.put(one_device.ENDED)


def by_name(report: Report, name: str) -> list[DeviceCheck]:
    return [check for check in report.checks if check.name == name]


def test_a_process_that_dies_is_a_gpu_that_failed_and_the_others_are_heard() -> None:
    report = supervision.run([gpu(0), gpu(1)], QUICK, dies)

    (silent,) = by_name(report, "answers")
    assert silent.gpu_uuid == "GPU-1"
    assert "status 9" in silent.words
    assert [check.gpu_uuid for check in by_name(report, "matrix_products")] == ["GPU-0"]
    assert not report.passed


@pytest.mark.slow
def test_a_gpu_that_hangs_is_told_within_the_limit_and_nothing_is_tried_together_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(QUICK), "limit", property(lambda _: 20.0))

    report = supervision.run([gpu(0), gpu(1)], QUICK, hangs)

    (silent,) = by_name(report, "answers")
    assert silent.gpu_uuid == "GPU-1"
    assert "did not answer in time" in silent.words
    assert not by_name(report, collective.NAME)


def test_a_cpu_under_load_is_no_hang_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(QUICK), "limit", property(lambda _: 1.0))
    monkeypatch.setattr(supervision, "MOST_STARVED", 0)
    monkeypatch.setattr(supervision, "starved_seconds", lambda pid: 600.0)

    report = supervision.run([gpu(1)], QUICK, hangs)

    (silent,) = by_name(report, "answers")
    assert (silent.gpu_uuid, silent.outcome) == ("GPU-1", CheckOutcome.INCONCLUSIVE)
    assert silent.words == "It could not be checked: its process waited 600 s for a CPU of the machine."
    assert not report.failed
    assert not report.passed


def test_a_process_that_shares_its_cpu_has_waited_for_it() -> None:
    pinned = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint(flush=True)"
    code = f"{pinned}\nwhile True: pass"
    rivals = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for rival in rivals:
            assert rival.stdout
            rival.stdout.readline()
        ends = time.monotonic() + 30
        while min(starved_seconds(rival.pid) for rival in rivals) < 0.2 and time.monotonic() < ends:
            time.sleep(0.1)
        assert min(starved_seconds(rival.pid) for rival in rivals) >= 0.2
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()
    assert starved_seconds(None) == 0.0


def test_a_gpu_that_somebody_computes_on_is_left_alone_and_nothing_has_passed() -> None:
    report = supervision.run([gpu(0)], QUICK, is_busy)

    assert not report.failed
    assert not report.passed


def test_the_one_gpu_whose_products_differ_from_its_neighbours_is_named() -> None:
    alike = [gpu(number) for number in range(4)]
    marks = {one.uuid: "a" for one in alike} | {"GPU-2": "b"}

    (odd,) = supervision.odd_ones(alike, marks)

    assert odd.gpu_uuid == "GPU-2"
    assert odd.outcome is CheckOutcome.FAILED


@pytest.mark.parametrize(
    "marks", [{"GPU-0": "a", "GPU-1": "b"}, {"GPU-0": "a", "GPU-1": "a"}, {"GPU-0": "a"}, {}]
)
def test_without_a_majority_nobody_is_blamed(marks: dict[str, str]) -> None:
    assert not supervision.odd_ones([gpu(0), gpu(1)], marks)


def test_models_are_compared_with_their_like_only() -> None:
    mixed = [gpu(0), gpu(1), gpu(2), gpu(3, "NVIDIA L4")]

    assert not supervision.odd_ones(mixed, {"GPU-0": "a", "GPU-1": "a", "GPU-2": "a", "GPU-3": "b"})


def test_all_reduce_over_two_processes_sums_rightly() -> None:
    check = collective.check([processor(), processor()], 0.0)

    assert check.outcome is CheckOutcome.MEASURED
    assert check.measured
    assert check.measured > 0


def test_the_command_says_its_report_as_one_line_of_json_and_leaves_it_for_the_job(tmp_path: Any) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "serving.checks", "gpu", "--device", "cpu", "--json"],
        env={**os.environ, "SLIPWAY_JOB_DIR": str(tmp_path)},
        capture_output=True,
        check=False,
        text=True,
    )

    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["passed"] is True
    assert {check["name"] for check in told["checks"]} == {
        *("matrix_products", "memory_patterns", "memory_bandwidth"),
        *("host_to_gpu", "gpu_to_host", "compute", "all_reduce"),
    }
    assert json.loads((tmp_path / "result.json").read_text()) == told


def test_a_machine_without_a_gpu_says_what_to_look_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "gpus", list)

    assert command.main(["gpu"]) == command.NOTHING_CHECKED

    said = capsys.readouterr().err
    assert "nvidia-smi" in said
    assert "--device cpu" in said


def test_a_gpu_that_is_not_there_is_an_error_that_names_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["gpu", "--device", "cpu", "--gpu", "7"]) == command.USAGE

    assert "no GPU 7. There are: 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "memory_gbs"),
    [
        ("NVIDIA H100 80GB HBM3", 3_350),
        ("NVIDIA H100 PCIe", 2_000),
        ("NVIDIA H200", 4_800),
        ("NVIDIA GH200 480GB", 4_800),
        ("NVIDIA A100-SXM4-40GB", 1_555),
        ("NVIDIA A100-SXM4-80GB", 2_039),
        ("NVIDIA A100 80GB PCIe", 1_935),
        ("NVIDIA L40S", 864),
        ("NVIDIA L4", 300),
        ("Tesla T4", 320),
        ("NVIDIA B200", 8_000),
    ],
)
def test_the_drivers_names_find_their_data_sheet(model: str, memory_gbs: float) -> None:
    expected = expected_of(model)

    assert expected
    assert expected.memory_gbs == memory_gbs


def test_no_data_sheet_is_made_up_for_a_model_that_nobody_knows() -> None:
    assert expected_of("NVIDIA GeForce RTX 3060") is None
