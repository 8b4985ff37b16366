"""A process that hangs is killed and replaced; real processes, for a stopped one runs no code to be faked."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.patience import eventually

pytestmark = pytest.mark.process

HEAD = """
import os, signal, sys, time
from common import watchdog
watchdog.SILENT_AFTER_SECONDS, watchdog._LOOK_EVERY_SECONDS = 6.0, 0.1

def say(text):
    os.write(1, (text + "\\n").encode())

def beat(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        watchdog.pulse()
        time.sleep(0.05)
"""
STOPS_ITSELF_ONCE = """
first = os.pipe()
os.write(first[1], b"x")
os.set_blocking(first[0], False)

def work():
    say("begun")
    beat(0.2)
    try:
        os.read(first[0], 1)
    except BlockingIOError:
        return 7
    os.kill(os.getpid(), signal.SIGSTOP)

sys.exit(watchdog.watched(work))
"""
CHILD_STOPS = """
def work():
    child = os.fork()
    if not child:
        beat(0.2)
        os.kill(os.getpid(), signal.SIGSTOP)
    beat(0.5)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        watchdog.pulse()
        time.sleep(0.05)
    say("child replaced")
    watchdog.leave()
    time.sleep(9)
    return 0

sys.exit(watchdog.watched(work))
"""
STOPS_WITH_ITS_CHILD_ONCE = """
first = os.pipe()
os.write(first[1], b"x")
os.set_blocking(first[0], False)

def work():
    watchdog.leave()
    say("begun")
    try:
        os.read(first[0], 1)
    except BlockingIOError:
        return 7
    if not os.fork():
        beat(0.2)
        os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)

sys.exit(watchdog.watched(work))
"""
GOES_ON = """
def work():
    say(str(os.getpid()))
    beat(600)

sys.exit(watchdog.watched(work))
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def start(started: list[subprocess.Popen[str]], text: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEAD + text]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started.append(subprocess.Popen(command, start_new_session=True, **pipes))
    return started[-1]


def test_a_stopped_process_is_killed_and_its_replacement_decides_how_it_ends(started) -> None:
    process = start(started, STOPS_ITSELF_ONCE)

    out, errors = process.communicate(timeout=60)

    assert (out.split(), process.returncode) == (["begun", "begun"], 7)
    assert "has not moved for" in errors


def test_a_stopped_child_of_the_work_is_killed_alone(started) -> None:
    process = start(started, CHILD_STOPS)

    out, errors = process.communicate(timeout=60)

    # The work itself said that it is not to be watched, and was silent for long.
    assert (out.split("\n")[0], process.returncode) == ("child replaced", 0)
    assert errors.count("has not moved for") == 1


def test_work_that_is_not_watched_is_replaced_when_it_leaves_its_killed_child_unnoticed(started) -> None:
    process = start(started, STOPS_WITH_ITS_CHILD_ONCE)

    out, errors = process.communicate(timeout=90)

    assert (out.split(), process.returncode) == (["begun", "begun"], 7)
    assert "has not noticed for" in errors


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_the_work_ends_with_its_watchdog(started, name: str) -> None:
    process = start(started, GOES_ON)
    assert process.stdout is not None
    worker = int(process.stdout.readline())

    process.send_signal(signal.Signals[name])

    assert process.wait(30) == -signal.Signals[name]
    eventually(lambda: not psutil.pid_exists(worker))


@pytest.mark.slow
def test_a_watchdog_that_slept_itself_kills_nobody_for_it(started) -> None:
    process = start(started, GOES_ON)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.send_signal(signal.SIGSTOP)
    os.kill(worker, signal.SIGSTOP)
    eventually(lambda: psutil.Process(worker).status() == psutil.STATUS_STOPPED)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(8)
    os.kill(worker, signal.SIGCONT)
    process.send_signal(signal.SIGCONT)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(7)
    assert psutil.Process(worker).ppid() == process.pid
