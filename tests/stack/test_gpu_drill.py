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
from controlplane.sample.place import on_the_samples_cluster
from slipway.client import Client
from tests.prepared import prepare_home
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def with_cluster() -> bool:
    return False


@pytest.fixture
def stack(tmp_path: Path, with_cluster: bool) -> Iterator[RunningStack]:
    """Nothing but what `bin/up` brings, after `--sample --kubernetes` with the sample's cluster."""
    home = tmp_path / "home"
    prepare_home(home)
    if with_cluster:
        (home / "sample-cluster").mkdir(mode=0o700)
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
    drill = ("run", "xid-74", "--node", socket.gethostname(), "--act", "--yes")
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


@pytest.mark.parametrize("with_cluster", [True])
def test_machines_of_the_samples_cluster_are_drilled_from_the_kernel_line_on(stack: RunningStack) -> None:
    url, home = f"http://127.0.0.1:{stack.port}", stack.home.path
    client = Client(url, (home / "admin-token").read_text().strip())
    file = home / "sample-cluster" / "kubeconfig"
    gateway = f"http://127.0.0.1:{stack.ports[4]}"
    on_the_samples_cluster(client, file, console=url, gateway_url=gateway, say=print)

    ran = slipway(stack, "run", "xid-74", "--node", "fake-1", "--act", "--yes")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(ran.stdout)["report"]
    states = [step["name"] for step in report["steps"]]
    ladder = ["quarantining", "draining", "collecting", "acting", "verifying", "returning"]
    assert [one for one in states if one in ladder][-1] == "returning"
    assert set(ladder) <= set(states)
    assert "Xid" in next(step["words"] for step in report["steps"] if step["name"] == "seen")
    assert not (home / "sample-cluster/fake-1/disk/var/lib/slipway/agent/drill/machine.json").exists()
