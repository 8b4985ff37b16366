"""`bin/up` either starts or says in one line what is wrong and what to do, with exit status 2."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.environment import PROJECT
from tests.stack.conftest import RunningStack

pytestmark = pytest.mark.stack


def refusal(tmp_path: Path, **settings: str) -> str:
    """Return the stderr of a start with these settings; it must refuse, in one line, and start nothing."""
    environ = os.environ | {"SLIPWAY_HOME": str(tmp_path / "home")} | settings
    command = [sys.executable, "-m", "tests.stack.small_stack"]
    ended = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    return ended.stderr


@pytest.mark.parametrize("setting", ["SLIPWAY_PORT", "SLIPWAY_GATEWAY_PORT", "SLIPWAY_GATEWAY_ADMIN_PORT"])
def test_a_taken_port_is_named(tmp_path: Path, setting: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        said = refusal(tmp_path, **{setting: str(port)})

    assert f"{setting}: port {port} on 127.0.0.1 is taken" in said
    assert not (tmp_path / "home" / "run" / "control.conf").exists()


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")

    said = refusal(tmp_path, SLIPWAY_HOME=str(tmp_path / "file" / "home"))

    assert "SLIPWAY_HOME: cannot write to" in said
    assert "name another directory" in said


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    assert "SLIPWAY_BIND: 192.0.2.1 is no address of this machine" in refusal(
        tmp_path, SLIPWAY_BIND="192.0.2.1"
    )


def test_a_malformed_setting_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, SLIPWAY_PORT="eighty").startswith("SLIPWAY_PORT: ")


def test_a_second_start_on_the_same_home_says_so(small_stack: RunningStack) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "tests.stack.small_stack"],
        cwd=PROJECT,
        env=small_stack.environ,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert second.returncode == 2
    assert f"already running on {small_stack.home.path} (process {small_stack.process.pid}," in second.stderr
    assert "bin/up --replace" in second.stderr
    assert small_stack.process.poll() is None


def test_a_start_waits_for_a_stack_that_lost_its_launcher(small_stack: RunningStack) -> None:
    small_stack.process.kill()
    small_stack.process.wait()

    small_stack.process = small_stack.launch()

    small_stack.wait_until_ready()
