"""Children of this process, theirs included, and the signals that ask it to end."""

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType

import psutil

HAND_OVER = signal.SIGUSR1
"""Asks a launcher to stop its control plane, to leave the data plane as it is and to end."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_WITHIN_SECONDS = 10.0
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class PartFailed(Exception):
    """A part that we started ended or never became healthy; the message is one line."""


def die_with(parent: int, how: signal.Signals) -> None:
    """Get the signal `how` when `parent` ends, however that ends (prctl(2)); for a child before exec."""
    _prctl(PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:
        os._exit(127)


class ProcessFamily:
    """All descendants: as child subreaper (prctl(2)) we inherit each one whose parent ends."""

    def __init__(self) -> None:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._ended: dict[int, int] = {}

    def reap(self) -> None:
        """Collect everyone who has ended."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._ended[ended[0]] = ended[1]

    def exit_code(self, pid: int) -> int | None:
        """Return a child's exit code: None while it runs, the negative signal number when one ended it."""
        self.reap()
        status = self._ended.get(pid)
        return None if status is None else os.waitstatus_to_exitcode(status)

    def kill(self, *, but: Callable[[], Collection[int]] = tuple) -> None:
        """Kill and reap every descendant, those that are born meanwhile too, `but` not these.

        One that the kernel does not let go (a device that hangs) is named and left.
        """
        deadline = time.monotonic() + KILL_WITHIN_SECONDS
        while living := self._living(but()):
            if time.monotonic() > deadline:
                say(f"Cannot be killed: {', '.join(f'process {process.pid}' for process in living)}")
                return
            for process in living:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.reap()
            time.sleep(0.01)

    def _living(self, spared: Collection[int]) -> list[psutil.Process]:
        return [one for one in psutil.Process().children(recursive=True) if one.pid not in spared]


class Signals:
    """The signals that ask us to stop, as something to wait for."""

    def __init__(self) -> None:
        self.asked: list[signal.Signals] = []
        self._read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, HAND_OVER):
            signal.signal(name, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup bin/up means to stay
            signal.signal(signal.SIGHUP, self._note)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only wakes us

    def _note(self, number: int, _: FrameType | None) -> None:
        self.asked.append(signal.Signals(number))

    def wait(self, seconds: float) -> None:
        """Wait until a signal, a child's end included, or until the time has passed."""
        if select.select([self._read_end], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                os.read(self._read_end, 512)


def say(text: str) -> None:
    """Write a line for the person at the terminal, who may have closed it."""
    with suppress(OSError):
        os.write(1, text.encode() + b"\n")
