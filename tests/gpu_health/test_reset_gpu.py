"""A GPU is reset once nobody holds it open, and left alone while somebody does."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_health.actions.holders import UNHELD
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
    """A machine where a process holds the GPU `nvidia3` open; its `sleep` takes no time."""
    program(tmp_path, "nvidia-smi", "echo '    Minor Number                          : 3'")
    program(tmp_path, "sleep", f"echo slept >>{tmp_path}/slept")
    (tmp_path / "nvidia3").touch()
    return tmp_path


@pytest.fixture
def holder(machine: Path) -> Iterator[int]:
    opened = subprocess.Popen(["tail", "-f", machine / "nvidia3"])
    try:
        yield opened.pid
    finally:
        opened.kill()
        opened.wait()


def wait_until_unheld(machine: Path) -> subprocess.CompletedProcess[str]:
    return run(machine, UNHELD.replace("/dev/nvidia", f"{machine}/nvidia"), "GPU-1")


def test_it_waits_until_the_last_process_has_let_go(machine: Path, holder: int) -> None:
    slept = machine / "slept"
    program(
        machine,
        "sleep",
        f"echo slept >>{slept}; [ $(wc -l < {slept}) -lt 3 ] || kill -9 {holder}; /bin/sleep 0.2",
    )

    assert wait_until_unheld(machine).returncode == 0
    assert slept.read_text().count("slept") >= 3


def test_it_says_who_holds_the_gpu_when_it_gives_up(machine: Path, holder: int) -> None:
    done = wait_until_unheld(machine)

    assert (done.returncode, done.stdout) == (1, f"The GPU is still held by: tail ({holder})\n")


@pytest.mark.parametrize(("state", "goes_on"), [("Completed", True), ("In Progress", True), ("N/A", False)])
def test_a_fabric_manager_is_restarted_where_there_is_an_nvswitch(
    tmp_path: Path, state: str, goes_on: bool
) -> None:
    program(tmp_path, "nvidia-smi", f"printf '    Fabric\\n        State        : {state}\\n'")
    done = run(tmp_path, NEEDS_NVSWITCH)
    assert (done.returncode == 0) is goes_on
    assert done.stdout == ("" if goes_on else "The machine has no NVSwitch.\n")
