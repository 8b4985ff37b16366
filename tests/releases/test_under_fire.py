"""Releases while processes are killed and messages lost: each ends, or is stuck with an alert."""

import subprocess
import sys

import pytest

from controlplane.environment import PROJECT


@pytest.mark.slow
@pytest.mark.stack
@pytest.mark.timeout(1_900)
def test_a_hundred_releases_end_while_a_worker_is_killed_every_two_seconds() -> None:
    """The command does it with a thousand where no number is given."""
    command = [sys.executable, "-m", "perf.under_fire", "--releases", "100", "--limit", "1500"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=1_800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
