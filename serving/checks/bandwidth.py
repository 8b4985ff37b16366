"""How fast bytes move: within the memory of the GPU, and over its link to the host and back."""

from collections.abc import Callable

import torch

from serving.checks.device import DeviceUnderTest
from serving.checks.expectations import expected_of
from serving.checks.report import CheckOutcome, DeviceCheck
from serving.checks.timing import Stopwatch

BYTES = {"cuda": 2**30, "cpu": 2**24}
BATCH = 16
"""Copies that are ordered at once."""
MOST_STARVED_SHARE = 0.2
"""Of the time: a figure that is too low while its process waits longer for a CPU says nothing of the GPU."""
UNIT = "GB/s"


def check_memory(target: DeviceUnderTest, seconds: float) -> DeviceCheck:
    """A copy reads and writes each byte: both count."""
    size = min(BYTES[target.kind], target.free_bytes() // 4)
    source = torch.ones(size, dtype=torch.uint8, device=target.device)
    goal = torch.empty_like(source)
    rate, starved = _rate(target, seconds, size, lambda: goal.copy_(source))
    expected = expected_of(target.model)
    least = expected.least_memory_gbs if expected else None
    return judged(target, "memory_bandwidth", 2 * rate, least, starved=starved)


def check_link(target: DeviceUnderTest, seconds: float) -> list[DeviceCheck]:
    """Page-locked host memory, each direction by itself: half the rate is half the lanes."""
    size = min(BYTES[target.kind] // 4, target.free_bytes() // 4)
    here = torch.ones(size, dtype=torch.uint8, pin_memory=target.is_gpu)
    there = torch.empty(size, dtype=torch.uint8, device=target.device)
    expected = expected_of(target.model)
    least = expected.least_link_gbs if expected else None
    to_gpu, to_starved = _rate(target, seconds, size, lambda: there.copy_(here, non_blocking=True))
    from_gpu, from_starved = _rate(target, seconds, size, lambda: here.copy_(there, non_blocking=True))
    return [
        judged(target, "host_to_gpu", to_gpu, least, starved=to_starved),
        judged(target, "gpu_to_host", from_gpu, least, starved=from_starved),
    ]


def judged(
    target: DeviceUnderTest, name: str, measured: float, least: float | None, unit: str = UNIT, *,
    starved: float = 0.0,
) -> DeviceCheck:  # fmt: skip
    """Against the least that passes; without one it is told only. `starved`: the share of the time in which
    the process waited for a CPU."""
    told = f"{measured:,.3g} {unit}" if measured < 10 else f"{measured:,.0f} {unit}"
    if least is None:
        outcome = CheckOutcome.MEASURED
        words = f"{told}; nothing is known of what {target.model} should reach."
    elif measured < least and starved > MOST_STARVED_SHARE:
        outcome = CheckOutcome.INCONCLUSIVE
        words = (
            f"{told}, less than the {least:,.0f} that {target.model} must reach, while the check waited for "
            f"a CPU of the machine {starved:.0%} of the time."
        )
    elif measured < least:
        outcome = CheckOutcome.FAILED
        words = f"{told}, less than the {least:,.0f} that {target.model} must reach."
    else:
        outcome, words = CheckOutcome.PASSED, f"{told}; {target.model} must reach {least:,.0f}."
    return target.check(
        name,
        outcome,
        words,
        measured=round(measured, 4),
        expected=None if least is None else round(least, 4),
        unit=unit,
    )


def _rate(
    target: DeviceUnderTest, seconds: float, size: int, copy: Callable[[], object]
) -> tuple[float, float]:
    """1e9 bytes a second, and the share of the time in which this process waited for a CPU. The first copy,
    which makes the pages, is not counted."""
    copy()
    target.finish()
    watch = Stopwatch(target)
    while not watch.works or watch.elapsed_seconds < seconds:
        watch.run(copy, BATCH)
    return size / watch.median_seconds / 1e9, watch.starved_share
