import os
import pty
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.embedded import running
from tests.patience import eventually
from tests.stack.conftest import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture(autouse=True)
def hangups_are_heard() -> Iterator[None]:
    """Also when these tests run under nohup, which makes every process below it deaf for them."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_that_asks_to_stop_ends_every_process(small_stack: RunningStack, name: str) -> None:
    small_stack.process.send_signal(signal.Signals[name])

    assert small_stack.process.wait(60) == 0
    assert small_stack.left_over() == []
    assert f"Stopping ({name})" in small_stack.said


def test_parts_stop_in_the_opposite_order_of_their_start_and_the_data_plane_last(
    small_stack: RunningStack,
) -> None:
    small_stack.process.send_signal(signal.SIGTERM)
    small_stack.process.wait(60)

    control, data = stopped(small_stack.home.control.log), stopped(small_stack.home.data.log)
    assert [sorted(control[:2]), control[2:]] == [["family", "stubborn"], ["first"]]
    assert data == ["deaf", "outlives"]
    logs = [plane.log.stat().st_mtime for plane in (small_stack.home.control, small_stack.home.data)]
    assert logs == sorted(logs)


def stopped(log: Path) -> list[str]:
    return [
        line.split("stopped: ")[1].split()[0] for line in log.read_text().splitlines() if "stopped: " in line
    ]


@pytest.mark.parametrize("plane", ["control", "data"])
def test_a_second_signal_kills_at_once(small_stack: RunningStack, plane: str) -> None:
    os.kill(small_stack.supervisord_pid(plane), signal.SIGSTOP)  # it can stop nothing any more
    small_stack.process.send_signal(signal.SIGINT)
    eventually(lambda: "once more to kill" in small_stack.said)
    small_stack.process.send_signal(signal.SIGINT)

    assert small_stack.process.wait(60) == 0
    assert small_stack.left_over() == []


def test_what_was_taken_over_is_stopped_like_the_rest(small_stack: RunningStack) -> None:
    kill(small_stack.process.pid, small_stack.supervisord_pid("data"))
    before = small_stack.pids()
    small_stack.process.wait()
    small_stack.process = small_stack.launch()
    small_stack.wait_until_ready()
    assert small_stack.pids() == before

    small_stack.process.send_signal(signal.SIGINT)

    assert small_stack.process.wait(60) == 0
    assert small_stack.left_over() == []


def test_without_a_launcher_the_data_plane_goes_on_and_is_looked_after(small_stack: RunningStack) -> None:
    before = small_stack.pids()

    kill(small_stack.process.pid, before["deaf"])

    small_stack.process.wait()
    eventually(lambda: small_stack.pids().get("deaf", before["deaf"]) != before["deaf"])
    assert small_stack.pids("outlives") == {"outlives": before["outlives"]}
    eventually(lambda: not running.descendants(small_stack.home.control.socket))


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_closed_terminal_ends_every_process(small_stack: RunningStack) -> None:
    small_stack.process.send_signal(signal.SIGINT)
    small_stack.process.wait(60)
    terminal, ours = pty.openpty()
    second = small_stack.launch(
        stdin=ours, stdout=ours, stderr=ours, start_new_session=True, preexec_fn=take_terminal
    )
    os.close(ours)
    shown = b""
    while b"Ctrl-C stops" not in shown:
        shown += os.read(terminal, 4096)

    os.close(terminal)

    assert second.wait(60) == 0
    assert small_stack.left_over() == []


def take_terminal() -> None:
    """Make stdin the controlling terminal of a new session; its end is a SIGHUP."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_part_that_ends_takes_its_process_group_along(small_stack: RunningStack) -> None:
    family = small_stack.supervisor.processes()["family"].pid
    assert family is not None

    def inside() -> list[int]:
        return [child.pid for child in psutil.Process(family).children() if os.getpgid(child.pid) == family]

    # The other one is in the group, too, until it has left it.
    eventually(lambda: len(inside()) == 1)
    (child,) = inside()

    os.kill(family, signal.SIGKILL)

    eventually(lambda: small_stack.supervisor.processes()["family"].restarts == 1)
    eventually(lambda: not psutil.pid_exists(child))
    assert small_stack.supervisor.processes()["family"].last_exit == "terminated by SIGKILL"
