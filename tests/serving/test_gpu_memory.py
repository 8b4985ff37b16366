"""A worker measures the GPU memory of its own processes; the driver's tool is a program of the test."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from serving.gpu_memory import IN_POD, GpuMemory


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file whose content the tool says of either question."""
    told = tmp_path / "told"
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat "{told}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return told


def measured(environment: dict[str, str]) -> int | None:
    memory = GpuMemory(environment=environment)
    asyncio.run(memory.look())
    return memory.mib


def test_memory_of_a_worker_is_that_of_its_processes_alone(tool: Path) -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        tool.write_text(f"{child.pid}, 6144\n{os.getpid()}, 512\n1, 20480\n")
        assert measured({}) == 6656
        tool.write_text("1, 20480\n")
        assert measured({}) is None, "nothing of it is known"
        child.kill()


def test_memory_of_a_worker_in_a_pod_is_that_of_the_cards_that_it_sees(tool: Path) -> None:
    tool.write_text("6144\n512\n")
    assert measured({IN_POD: "10.0.0.1"}) == 6656
    tool.write_text("[N/A]\n")
    assert measured({IN_POD: "10.0.0.1"}) is None
