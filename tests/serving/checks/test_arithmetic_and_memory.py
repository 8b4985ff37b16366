"""What a faulty GPU would do, done to the processor: each check must see it."""

import subprocess
import sys

import pytest
import torch

from serving.checks import bandwidth, load, matrix_products, memory_patterns
from serving.checks.device import DeviceUnderTest, processor
from serving.checks.report import CheckOutcome, DeviceCheck

pytestmark = [pytest.mark.process, pytest.mark.any_database]
H100 = DeviceUnderTest("cpu", 0, "NVIDIA H100 80GB HBM3", "GPU-1", "0000:9b:00")


class Faulty:
    """Multiplies rightly, but for the products of these numbers."""

    def __init__(self, *numbers: int, value: float = float("nan")) -> None:
        self._numbers = numbers
        self._value = value
        self._done = 0

    def __call__(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        self._done += 1
        product = left @ right
        if self._done in self._numbers:
            product[3, 5] += self._value
        return product


def test_products_that_are_right_each_time_pass_and_have_one_fingerprint() -> None:
    (first, mark), (second, same) = (matrix_products.check(processor(), 0.0) for _ in range(2))

    assert first.outcome is second.outcome is CheckOutcome.PASSED
    assert mark == same


@pytest.mark.parametrize("value", [float("nan"), 1e-2, -300.0])
def test_one_wrong_value_in_one_repeat_is_seen_and_its_place_is_named(value: float) -> None:
    check, _ = matrix_products.check(H100, 0.0, Faulty(2, value=value))

    assert check.outcome is CheckOutcome.FAILED
    assert check.measured == 1
    assert "row 3, column 5" in check.words
    assert (check.gpu_uuid, check.gpu_bus_id) == ("GPU-1", "0000:9b:00")


def test_a_gpu_that_is_wrong_the_same_way_each_time_is_seen_by_the_processors_products() -> None:
    def off(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        product = left @ right
        product[0, 7] *= 1.5
        return product

    check, _ = matrix_products.check(processor(), 0.0, off)

    assert check.outcome is CheckOutcome.FAILED
    assert "row 0, column 7" in check.words
    assert "than rounding explains" in check.words


@pytest.mark.parametrize("row", [1, 100, 137, 254])
def test_an_error_that_is_always_in_the_same_place_is_seen_wherever_it_is(row: int) -> None:
    def off(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        product = left @ right
        product[row, 41] += 1.0
        return product

    check, _ = matrix_products.check(processor(), 0.0, off)

    assert check.outcome is CheckOutcome.FAILED
    assert f"row {row}, column 41" in check.words


def test_rows_that_are_held_against_the_processor_are_drawn_anew() -> None:
    left, right = (torch.rand((256, 256)) for _ in range(2))
    product = left @ right

    assert len({tuple(matrix_products._rows(left, right, product).tolist()) for _ in range(3)}) == 3


def test_switches_of_torch_are_as_before_when_it_is_over() -> None:
    before = torch.backends.cuda.matmul.allow_tf32

    matrix_products.check(processor(), 0.0)

    assert torch.backends.cuda.matmul.allow_tf32 is before


def test_memory_that_keeps_everything_passes() -> None:
    check = memory_patterns.check(processor(), 0.0)

    assert check.outcome is CheckOutcome.PASSED
    assert "all came back" in check.words


@pytest.mark.parametrize("writing", range(1, len(memory_patterns.PATTERNS) + 2))
def test_a_bit_that_flips_after_any_writing_is_seen_and_its_place_is_named(writing: int) -> None:
    done = 0

    def flip(chunks: list[torch.Tensor]) -> None:
        nonlocal done
        done += 1
        if done == writing:
            chunks[1][17] ^= 1 << 33

    check = memory_patterns.check(processor(), 0.0, flip)

    assert check.outcome is CheckOutcome.FAILED
    assert check.measured == 1
    place = memory_patterns.CHUNK_BYTES["cpu"] + 17 * 8
    assert f"offset {place:#x}" in check.words


def test_a_figure_below_what_the_model_must_reach_fails() -> None:
    assert bandwidth.judged(H100, "host_to_gpu", 37.9, 37.8).outcome is CheckOutcome.PASSED
    check = bandwidth.judged(H100, "host_to_gpu", 25.2, 37.8)
    assert check.outcome is CheckOutcome.FAILED
    assert check.words == "25 GB/s, less than the 38 that NVIDIA H100 80GB HBM3 must reach."


def test_a_low_figure_of_a_starved_process_is_inconclusive_and_a_good_one_passes() -> None:
    low = bandwidth.judged(H100, "host_to_gpu", 25.2, 37.8, starved=0.5)
    assert low.outcome is CheckOutcome.INCONCLUSIVE
    assert "50%" in low.words
    assert bandwidth.judged(H100, "host_to_gpu", 37.9, 37.8, starved=0.5).outcome is CheckOutcome.PASSED
    assert bandwidth.judged(H100, "host_to_gpu", 25.2, 37.8, starved=0.1).outcome is CheckOutcome.FAILED


STARVED = """
import os, subprocess, sys, torch
from serving.checks import bandwidth, load
from serving.checks.device import DeviceUnderTest
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
torch.set_num_threads(1)
rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
try:
    slow = DeviceUnderTest("cpu", 0, "NVIDIA H100 80GB HBM3")
    print(*[one.outcome for one in (bandwidth.check_memory(slow, 2.0), *load.check(slow, 2.0, None))])
finally:
    for rival in rivals:
        rival.kill()
"""


def test_a_device_that_is_slow_because_its_process_is_starved_is_not_called_slow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED], capture_output=True, text=True, check=True, timeout=120
    )

    assert done.stdout.split() == ["inconclusive", "inconclusive"]


def test_both_directions_of_the_link_are_measured() -> None:
    to_gpu, from_gpu = bandwidth.check_link(processor(), 0.0)

    assert (to_gpu.name, from_gpu.name) == ("host_to_gpu", "gpu_to_host")
    assert to_gpu.measured
    assert from_gpu.measured


def test_a_figure_of_an_unknown_model_is_told_and_not_judged() -> None:
    check = bandwidth.check_memory(processor(), 0.0)

    assert check.outcome is CheckOutcome.MEASURED
    assert check.measured
    assert check.measured > 0


class Driver:
    """NVML of a GPU whose clock is held back in some of the looks."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self, *reasons: int) -> None:
        self._reasons = list(reasons)

    def power_watts(self) -> float | None:
        return 690.0

    def sm_clock_mhz(self) -> float | None:
        return None

    def temperature_celsius(self) -> float | None:
        return 71.0

    def clock_reasons(self) -> int:
        return self._reasons.pop(0)


@pytest.mark.parametrize(
    ("reasons", "outcome"),
    [
        ([0x00] * 10, CheckOutcome.PASSED),
        ([0x04] * 10, CheckOutcome.PASSED),
        ([0x40] * 2 + [0] * 8, CheckOutcome.FAILED),
    ],
    ids=["nothing", "software power cap", "heat in a fifth of the looks"],
)
def test_a_clock_that_heat_holds_back_fails_and_one_held_by_its_power_limit_does_not(
    reasons: list[int], outcome: CheckOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "LOOK_EVERY_SECONDS", 0.0)
    samples = load.DriverSamples()
    driver = Driver(*reasons)
    for _ in reasons:
        samples.look(driver)  # type: ignore[arg-type]

    check: DeviceCheck = load._clocks(H100, samples)

    assert check.outcome is outcome
    assert "690 W" in check.words
    assert "71 °C" in check.words


def test_full_load_says_what_was_computed() -> None:
    (check,) = load.check(processor(), 0.0, None)

    assert check.name == "compute"
    assert check.unit == "TFLOPS"
    assert check.outcome is CheckOutcome.MEASURED
