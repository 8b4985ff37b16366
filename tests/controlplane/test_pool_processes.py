"""Processes of a Celery worker's pool end with it, whenever it ends."""

import subprocess
import sys

import pytest

BORN_LATE = """
import os, time
from controlplane import heartbeats
heartbeats.be_known()
parent = os.getpid()
if not os.fork():
    while os.getppid() == parent:
        time.sleep(0.01)
    os.write(1, b"up ")
    heartbeats.end_with_the_worker()
    os.write(1, b"alive")
"""


@pytest.mark.stack
def test_one_that_comes_up_when_its_worker_is_dead_ends_at_once() -> None:
    """The process writes what it does to the pipe, which is read until the process has ended."""
    done = subprocess.run([sys.executable, "-c", BORN_LATE], check=True, stdout=subprocess.PIPE, timeout=30)
    assert done.stdout == b"up "
