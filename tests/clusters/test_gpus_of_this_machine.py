"""GPUs of this machine as its driver lists them; those that cannot be read are unknown."""

from pathlib import Path
from typing import Any

import pytest

from clusters.backends.base import GpuSharingMode, ObservedGpu
from clusters.backends.embedded import machine


def test_gpus_are_read_as_the_driver_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "machine_id", lambda: "box")
    listed = (
        "0, GPU-50, NVIDIA H100 80GB HBM3, 81559, 550.54.15, 165492, 00000000:3B:00.0, Enabled\n"
        "1, [N/A], NVIDIA GB10, [N/A], [N/A], [N/A], [N/A], [N/A]\n\nNo devices were found\n"
    )

    assert machine.parse_gpus(listed) == [
        ObservedGpu(
            uuid="GPU-50",
            index=0,
            name="NVIDIA H100 80GB HBM3",
            memory_bytes=81559 * 2**20,
            driver="550.54.15",
            serial="165492",
            pci_bus_id="00000000:3B:00.0",
            sharing=GpuSharingMode.MIG,
        ),
        ObservedGpu(uuid="box/1", index=1, name="NVIDIA GB10", memory_bytes=0),
    ]


@pytest.mark.parametrize(
    ("script", "gpus", "problem"),
    [
        ("echo No devices were found; exit 6", (), ""),
        ("echo NVML: Driver/library version mismatch >&2; exit 18", None, "version mismatch"),
        ("exec sleep 30", None, "timed out"),
    ],
)
def test_gpus_that_cannot_be_read_are_unknown_and_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, gpus: Any, problem: str
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(machine, "ASK_GPUS_WITHIN_SECONDS", 0.5)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    found = machine.this_machine()

    assert found.gpus == gpus
    assert problem in found.problem
    assert bool(found.problem) == (gpus is None)
