"""Replaces a process that hangs: what is stopped, or waits for ever, can neither notice nor end itself.

`watched(work)` runs `work` in a child. The child, and what it forks, call `pulse()` whenever a turn of their
work is done; whoever has done so and falls silent is killed, and a child that was is started again. The
parent does nothing else, so it needs none to watch it: while it is stopped itself the work goes on.
"""

import ctypes
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import psutil

logger = logging.getLogger(__name__)

SILENT_AFTER_SECONDS = 6.0
FIRST_PULSE_WITHIN_SECONDS = 60.0
REPLACE_ME = 75
"""Exit status of a child that knows that it hangs; EX_TEMPFAIL of sysexits.h."""

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_SECONDS = 0.5
_MOST_WORDS = 100
"""Heard before the next look; Linux keeps ten of them by default."""
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_ear: socket.socket | None = None


def pulse() -> None:
    """This process has done a turn of its work; without a watchdog nothing happens."""
    _say(b"%d" % os.getpid())


def leave() -> None:
    """This process is not to be watched until its next `pulse`: it ends, or waits for something else."""
    _say(b"-%d" % os.getpid())


def watched(work: Callable[[], int]) -> int:
    """The exit status of `work`, run in a child that dies with this process. Signals are handed on.

    Call it in a process with one thread and without connections; what it has loaded the child has too, so
    that a replacement is there at once.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    theirs.setblocking(False)
    watchdog = _Watchdog(ours)
    while True:
        watchdog.begin(_fork(work, ours, theirs))
        status = watchdog.watch()
        if status < 0:
            # As it ended, so do we: whoever supervises us tells people the signal.
            with suppress(OSError):  # SIGKILL needs no permission
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        if status != REPLACE_ME:
            return status


class _Watchdog:
    def __init__(self, ear: socket.socket) -> None:
        self._ear = ear
        self._child = 0
        self._heard: dict[int, float] = {}
        self._killed: dict[int, float] = {}

    def begin(self, child: int) -> None:
        self._child = child
        self._killed.clear()
        self._heard = {child: time.monotonic() + FIRST_PULSE_WITHIN_SECONDS - SILENT_AFTER_SECONDS}
        for name in _FORWARDED:
            signal.signal(name, self._hand_on)

    def _hand_on(self, number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._child, number)

    def watch(self) -> int:
        """Until the child has ended: its exit status, REPLACE_ME if it had to be killed.

        Negative: the signal that ended it.
        """
        looked_at = time.monotonic()
        while True:
            self._listen()
            ended, status = os.waitpid(self._child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return REPLACE_ME if self._child in self._killed else code
            now = time.monotonic()
            if now - looked_at > SILENT_AFTER_SECONDS / 2:
                # We were stopped, too: what was said meanwhile may be lost.
                self._heard = {pid: max(at, now) for pid, at in self._heard.items()}
            looked_at = now
            for pid, at in list(self._heard.items()):
                if now - at > SILENT_AFTER_SECONDS:
                    self._replace(pid, now - at)
            self._ask_for_replacements(now)

    def _listen(self) -> None:
        select.select([self._ear], [], [], _LOOK_EVERY_SECONDS)
        with suppress(BlockingIOError):
            for _ in range(_MOST_WORDS):
                pid = int(self._ear.recv(32))
                if pid > 0:
                    self._heard[pid] = time.monotonic()
                else:
                    self._heard.pop(-pid, None)

    def _replace(self, pid: int, seconds: float) -> None:
        del self._heard[pid]
        if pid != self._child and not _is_child(pid, of=self._child):
            return  # it has ended, and another may have its number by now
        self._kill(pid, f"has not moved for {seconds:.0f} s")

    def _ask_for_replacements(self, now: float) -> None:
        """Who does not notice that what it forked was killed hangs itself, also where it is not watched."""
        for pid, at in list(self._killed.items()):
            if pid == self._child or not _is_child(pid, of=self._child):
                continue
            if now - at > SILENT_AFTER_SECONDS and self._child not in self._killed:
                self._kill(self._child, f"has not noticed for {now - at:.0f} s that its child {pid} ended")

    def _kill(self, pid: int, why: str) -> None:
        logger.warning("Process %s %s: killed, to be replaced", pid, why)
        self._killed[pid] = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork(work: Callable[[], int], ours: socket.socket, theirs: socket.socket) -> int:
    parent = os.getpid()
    child = os.fork()
    if not child:
        _work(work, parent, ours, theirs)
    return child


def _work(work: Callable[[], int], parent: int, ours: socket.socket, theirs: socket.socket) -> NoReturn:
    global _ear
    code = 1
    try:
        ours.close()
        for name in _FORWARDED:
            signal.signal(name, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        _ear = theirs
        code = work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(text: bytes) -> None:
    if _ear is not None:
        # A watchdog that does not listen is none that would kill.
        with suppress(OSError):
            _ear.send(text)


def _is_child(pid: int, *, of: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).ppid() == of
    return False
