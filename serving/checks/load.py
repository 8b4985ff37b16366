"""A GPU under full load: what it computes, and whether heat or its power supply holds its clock back."""

from dataclasses import dataclass, field

import torch

from serving.checks.bandwidth import judged
from serving.checks.device import DeviceUnderTest, Nvml
from serving.checks.expectations import expected_of
from serving.checks.report import CheckOutcome, DeviceCheck
from serving.checks.timing import Stopwatch

SIDE = {"cuda": 8_192, "cpu": 256}
BATCH = 5
"""Products that are ordered at once."""
LOOK_EVERY_SECONDS = 0.5
HELD_BACK = {0x08: "hardware slowdown", 0x40: "thermal slowdown", 0x80: "power brake"}
"""Bits of nvmlClocksEventReasons that are no normal operation."""
MOST_HELD_BACK = 0.1
"""Of the looks: a peak for a moment is none."""


@dataclass
class DriverSamples:
    """Readings of the driver during the load."""

    looks: int = 0
    held_back: dict[str, int] = field(default_factory=dict)
    watts: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    hottest: float = 0.0

    def look(self, nvml: Nvml) -> None:
        self.looks += 1
        reasons = nvml.clock_reasons()
        for bit, name in HELD_BACK.items():
            if reasons & bit:
                self.held_back[name] = self.held_back.get(name, 0) + 1
        if (watts := nvml.power_watts()) is not None:
            self.watts.append(watts)
        if (clock := nvml.sm_clock_mhz()) is not None:
            self.clocks.append(clock)
        self.hottest = max(self.hottest, nvml.temperature_celsius() or 0.0)


def check(target: DeviceUnderTest, seconds: float, nvml: Nvml | None) -> list[DeviceCheck]:
    """Throughput of 16-bit products, and the clock if the driver can be asked."""
    side = SIDE[target.kind]
    left = torch.rand((side, side), device=target.device).to(torch.bfloat16)
    right = torch.rand((side, side), device=target.device).to(torch.bfloat16)
    left @ right
    target.finish()
    samples, watch = DriverSamples(), Stopwatch(target)
    look_at = 0.0

    def look() -> None:
        nonlocal look_at
        if nvml and watch.elapsed_seconds >= look_at:
            samples.look(nvml)
            look_at += LOOK_EVERY_SECONDS

    while not watch.works or watch.elapsed_seconds < seconds:
        watch.run(lambda: left @ right, BATCH, meanwhile=look)
    expected = expected_of(target.model)
    rate = judged(
        target, "compute", 2 * side**3 / watch.median_seconds / 1e12,
        expected.least_tflops if expected else None, unit="TFLOPS", starved=watch.starved_share,
    )  # fmt: skip
    return [rate, _clocks(target, samples)] if samples.looks else [rate]


def _clocks(target: DeviceUnderTest, samples: DriverSamples) -> DeviceCheck:
    held = {name: looks / samples.looks for name, looks in samples.held_back.items()}
    worst = max(held.values(), default=0.0)
    told = [f"{max(samples.watts):.0f} W"] if samples.watts else []
    told += [f"{min(samples.clocks):.0f} to {max(samples.clocks):.0f} MHz"] if samples.clocks else []
    told += [f"{samples.hottest:.0f} °C"] if samples.hottest else []
    reasons = ", ".join(f"{name} in {share:.0%} of the looks" for name, share in sorted(held.items()))
    return target.check(
        "clock_under_load",
        CheckOutcome.FAILED if worst > MOST_HELD_BACK else CheckOutcome.PASSED,
        f"Under load {', '.join(told)}; {reasons or 'nothing held the clock back'}.",
        measured=round(worst, 3),
        expected=MOST_HELD_BACK,
        unit="share of looks",
    )
