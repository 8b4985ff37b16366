"""GPUs that are played below nvidia-ml-py, and the agent that tells of them."""

import asyncio
import json
from pathlib import Path

import pytest

from gpu_health.signals.nvml import NvmlReader
from gpu_health.signals.reading import SOURCE_STATE, GpuReading
from serving.drills import agent
from serving.drills.__main__ import main
from serving.drills.agent import PlayedMachine
from serving.drills.machine import BadOrder, Play, carry_out, read_play
from serving.drills.nvml import played_module
from tests.patience import cancelled


def faults(readings: list[GpuReading]) -> set[tuple[str, str]]:
    return {(one.fault, str(one.kind)) for one in readings if one.fault != SOURCE_STATE}


def test_what_is_played_is_read_through_nvidia_ml_py_and_is_over_when_it_is_healed() -> None:
    settings: dict[int, dict[str, int]] = {}
    module = played_module(lambda: Play(3, 4, settings))
    reader = NvmlReader(module, session="s", expected_gpus=4)
    assert faults(list(reader.read(1.0))) == {("driver.version", "fact"), ("gpu.count", "fact")}

    settings[1] = {"ecc_double_bit": 2, "row_remap_pending": 1, "clock_reasons": 0x40, "links_down": 1}
    settings[1] |= {"sram_threshold": 1, "margin": -3, "pcie_width": 8, "recovery_action": 1}
    settings[2] = {"lost": 1}
    seen = reader.read(2.0)

    assert faults(seen) == {
        (fault, "fault")
        for fault in (
            *("ecc.double_bit", "ecc.sram_threshold", "row_remap.pending", "clocks.thermal_slowdown"),
            *("nvlink.down", "thermal.margin", "pcie.width", "gpu.recovery_action", "gpu.lost"),
        )
    }
    assert {one.gpu_bus_id for one in seen} == {"0d11:27:00", "0d11:33:00"}
    settings.clear()
    assert ("gpu.lost", "cleared") in faults(reader.read(3.0))


async def test_the_agent_tells_what_is_played_and_that_a_drill_has_played_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "LOOK_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(agent, "ASK_EVERY_SECONDS", 0.02)
    found: list[GpuReading] = []
    task = asyncio.create_task(PlayedMachine(found.extend, tmp_path / "drill").run())
    carry_out(tmp_path / "drill", {"drill": 7, "gpus": 2})
    for _ in range(200):
        await asyncio.sleep(0.02)
        if found:
            break
    line = "NVRM: Xid (PCI:{bus}): 79, pid=1, GPU has fallen off the bus."
    carry_out(tmp_path / "drill", {"drill": 7, "gpus": 2, "gpu": 1, "kernel": [line], "nvml": {"lost": 1}})
    for _ in range(200):
        await asyncio.sleep(0.02)
        if {"xid.79", "gpu.lost"} <= {one.fault for one in found}:
            break
    await cancelled(task)

    assert {"xid.79", "gpu.lost"} <= {one.fault for one in found}
    assert {one.detail("drill") for one in found} == {"7"}


def test_a_repair_heals_what_it_mends_and_the_check_says_so(tmp_path: Path) -> None:
    carry_out(tmp_path, {"drill": 7, "gpus": 2, "gpu": 1, "breaks": True, "nvml": {"lost": 1}})

    carry_out(tmp_path, {"drill": 7, "order": "repair", "action": "reset_gpu"})
    assert not carry_out(tmp_path, {"drill": 7, "order": "check"})["passed"]
    carry_out(tmp_path, {"drill": 7, "order": "repair", "action": "reboot", "heals": True})
    assert carry_out(tmp_path, {"drill": 7, "order": "check"})["passed"]
    carry_out(tmp_path, {"drill": 6, "order": "over"})
    assert read_play(tmp_path) is not None
    carry_out(tmp_path, {"drill": 7, "order": "over"})
    assert read_play(tmp_path) is None


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({}, "names its drill"),
        ({"drill": 1, "order": "explode"}, "order must be"),
        ({"drill": 1, "gpus": 99}, "gpus must be from 1"),
        ({"drill": 1, "gpus": 2, "gpu": 2}, "gpu must be from 0 to 1"),
        ({"drill": 1, "nvml": {"made_up": 1}}, "nvml has settings of"),
        ({"drill": 1, "kernel": "NVRM"}, "kernel must be"),
    ],
)
def test_an_order_that_cannot_be_meant_is_refused_in_words(
    tmp_path: Path, order: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadOrder, match=words):
        carry_out(tmp_path, order)
    assert main([str(tmp_path), json.dumps(order)]) == 2
    assert words in capsys.readouterr().err
