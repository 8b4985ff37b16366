import os
import pty
import signal
from collections.abc import Iterator

import psutil
import pytest

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

    assert small_stack.process.wait(15) == 0
    assert small_stack.left_over() == []
    assert f"Stopping ({name})" in small_stack.said


def test_parts_stop_in_the_opposite_order_of_their_start(small_stack: RunningStack) -> None:
    small_stack.process.send_signal(signal.SIGTERM)
    small_stack.process.wait(15)

    log = (small_stack.home.logs / "supervisord.log").read_text()
    stopped = [line.split("stopped: ")[1].split()[0] for line in log.splitlines() if "stopped: " in line]
    assert sorted(stopped[:2]) == ["family", "stubborn"]
    assert stopped[2:] == ["first"]


def test_a_second_signal_kills_at_once(small_stack: RunningStack) -> None:
    os.kill(small_stack.supervisord_pid(), signal.SIGSTOP)  # it can stop nothing any more
    small_stack.process.send_signal(signal.SIGINT)
    eventually(lambda: "once more to kill" in small_stack.said)
    small_stack.process.send_signal(signal.SIGINT)

    assert small_stack.process.wait(5) == 0
    assert small_stack.left_over() == []


def test_a_killed_supervisord_takes_everything_with_it_and_is_told(small_stack: RunningStack) -> None:
    os.kill(small_stack.supervisord_pid(), signal.SIGKILL)

    assert small_stack.process.wait(10) == 1
    assert small_stack.left_over() == []
    assert "supervisord ended (killed by SIGKILL)" in small_stack.said


def test_a_killed_launcher_leaves_nothing_running(small_stack: RunningStack) -> None:
    small_stack.process.kill()

    eventually(lambda: small_stack.left_over() == [])


def test_launcher_and_supervisord_killed_together_leave_no_part(small_stack: RunningStack) -> None:
    small_stack.process.kill()
    os.kill(small_stack.supervisord_pid(), signal.SIGKILL)

    # Only `family`'s own children, whom nobody is left to look after, are not known to supervisord.
    eventually(lambda: all(line.endswith(" child") for line in small_stack.left_over()))


def test_a_closed_terminal_ends_every_process(small_stack: RunningStack) -> None:
    small_stack.process.send_signal(signal.SIGINT)
    small_stack.process.wait(15)
    terminal, ours = pty.openpty()
    second = small_stack.launch(
        stdin=ours, stdout=ours, stderr=ours, start_new_session=True, preexec_fn=take_terminal
    )
    os.close(ours)
    shown = b""
    while b"Ctrl-C stops" not in shown:
        shown += os.read(terminal, 4096)

    os.close(terminal)

    assert second.wait(15) == 0
    assert small_stack.left_over() == []


def take_terminal() -> None:
    """In a new session: stdin becomes the controlling terminal, whose end is a SIGHUP."""
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
    assert not psutil.pid_exists(child)
    assert small_stack.supervisor.processes()["family"].last_exit == "terminated by SIGKILL"
