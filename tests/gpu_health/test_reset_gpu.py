"""A GPU is reset once nobody holds it open, and left alone while somebody does."""

import os
import subprocess
from pathlib import Path

import pytest

from gpu_health.actions.reset_gpu import UNHELD
from gpu_health.actions.restart_services import NEEDS_NVSWITCH


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", *argv], env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    program(tmp_path, "nvidia-smi", "echo '    Minor Number                          : 3'")
    program(tmp_path, "sleep", "echo slept >>" + str(tmp_path / "slept"))
    return tmp_path


def test_it_waits_until_the_last_process_has_let_go(machine: Path) -> None:
    held = f"[ $1 = /dev/nvidia3 ] || exit 9; [ $(wc -l < {machine}/slept) -lt 3 ] && echo 1"
    (machine / "slept").touch()
    program(machine, "fuser", held)
    assert run(machine, UNHELD, "GPU-1").returncode == 0
    assert (machine / "slept").read_text().count("slept") == 3


def test_it_says_who_holds_the_gpu_when_it_gives_up(machine: Path) -> None:
    program(machine, "fuser", f"echo {os.getpid()}")
    done = run(machine, UNHELD, "GPU-1")
    name = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    assert (done.returncode, done.stdout) == (1, f"The GPU is still held by: {name} ({os.getpid()})\n")


@pytest.mark.parametrize(("state", "goes_on"), [("Completed", True), ("In Progress", True), ("N/A", False)])
def test_a_fabric_manager_is_restarted_where_there_is_an_nvswitch(
    tmp_path: Path, state: str, goes_on: bool
) -> None:
    program(tmp_path, "nvidia-smi", f"printf '    Fabric\\n        State        : {state}\\n'")
    done = run(tmp_path, NEEDS_NVSWITCH)
    assert (done.returncode == 0) is goes_on
    assert done.stdout == ("" if goes_on else "The machine has no NVSwitch.\n")
