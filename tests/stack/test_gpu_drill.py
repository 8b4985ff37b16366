"""A fault is played on this machine, seen by its agent through NVML and the kernel's log, and healed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.environment import PROJECT
from tests.prepared import prepare_home
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[RunningStack]:
    """Nothing but what `bin/up` brings."""
    home = tmp_path / "home"
    prepare_home(home)
    one = RunningStack(home, "controlplane.embedded", database_url="")
    try:
        one.wait_until_ready(seconds=300)
        yield one
    finally:
        one.stop()


def slipway(stack: RunningStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {
        "SLIPWAY_URL": f"http://127.0.0.1:{stack.port}",
        "SLIPWAY_TOKEN": "",
        "SLIPWAY_TOKEN_FILE": str(stack.home.path / "admin-token"),
    }
    command = [sys.executable, "-m", "slipway.cli", "--output", "json", "gpu", "drill", *arguments]
    return subprocess.run(
        command, cwd=PROJECT, env=environ, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_drill_goes_from_the_kernel_line_up_the_ladder_and_back_to_service(stack: RunningStack) -> None:
    drill = ("run", "xid-74", "--node", socket.gethostname(), "--act")
    assert "not marked as a test cluster" in slipway(stack, *drill).stderr
    assert slipway(stack, "mark", "local").returncode == 0

    ran = slipway(stack, *drill)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    report = found["report"]
    assert (found["state"], report["verdict"]["differences"]) == ("passed", [])
    assert 0 <= report["detected_seconds"] <= report["quarantined_seconds"] < report["repaired_seconds"]
    states = [step["name"] for step in report["steps"]]
    assert states.count("acting") == 2, "a reset does not help, a reboot does"
    assert not (stack.home.run / "drill" / "machine.json").exists()
    assert slipway(stack, "run", "gpu-missing", "--node", socket.gethostname()).returncode == 0
