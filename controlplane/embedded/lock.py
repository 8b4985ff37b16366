"""One stack per home, and how a stack takes the place of another."""

import fcntl
import os
import signal
import time
from contextlib import suppress

import psutil

from controlplane.embedded.home import Home, HomeUnusable
from controlplane.embedded.processes import HAND_OVER
from controlplane.environment import variable

ABANDONED_STACK_ENDS_WITHIN_SECONDS = 30.0
HANDED_OVER_WITHIN_SECONDS = 40.0
"""More than a launcher gives its control plane to stop."""
CLOCK_SHIFTS_SECONDS = 5.0
"""The start of a process is told in the time of a clock that may be set meanwhile."""


class HomeLock:
    """Holds the lock that allows one stack per home. The control plane's supervisord inherits it: it lasts
    until both are gone."""

    def __init__(self, home: Home) -> None:
        self._path = home.lock
        self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, address: str, *, replace: bool = False) -> bool:
        """True when a running stack handed its control plane over, which it does if `replace`.

        Raises HomeUnusable when another stack has this home; one that lost its launcher is waited for.
        """
        deadline = time.monotonic() + ABANDONED_STACK_ENDS_WITHIN_SECONDS
        asked: psutil.Process | None = None
        while not self._try():
            holder, where = self._holder()
            if holder and replace and asked is None:
                asked, deadline = holder, time.monotonic() + HANDED_OVER_WITHIN_SECONDS
                self._signal(holder, HAND_OVER)
            elif asked and time.monotonic() > deadline and asked.is_running():
                self._signal(asked, signal.SIGKILL)
                deadline = time.monotonic() + ABANDONED_STACK_ENDS_WITHIN_SECONDS
            elif (holder and not replace) or time.monotonic() > deadline:
                number = f"process {holder.pid}, " if holder else ""
                raise HomeUnusable(
                    f"Slipway is already running on {self._path.parent.parent} ({number}{where}). "
                    "Stop that one first, take its place with `bin/up --replace`, or start this one with "
                    f"another {variable('home')} and other ports."
                )
            time.sleep(0.2)
        self._note(address)
        return asked is not None

    def _note(self, address: str) -> None:
        with suppress(OSError):  # a full disk: the lock holds, and only its holder's name is not known
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, f"{os.getpid()} {psutil.Process().create_time()} {address}\n".encode(), 0)

    def _try(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _holder(self) -> tuple[psutil.Process | None, str]:
        """(launcher that took the lock last, its address); None when it has ended."""
        words = os.pread(self.fd, 300, 0).decode(errors="replace").split()
        if len(words) != 3 or not words[0].isdecimal():
            return None, "starting"
        with suppress(psutil.Error, ValueError):
            process = psutil.Process(int(words[0]))
            is_same = abs(process.create_time() - float(words[1])) < CLOCK_SHIFTS_SECONDS
            if is_same and process.status() != psutil.STATUS_ZOMBIE:
                return process, words[2]
        return None, words[2]

    def _signal(self, holder: psutil.Process, number: signal.Signals) -> None:
        try:
            holder.send_signal(number)
        except psutil.NoSuchProcess:
            pass
        except psutil.AccessDenied:
            raise HomeUnusable(
                f"Process {holder.pid} is another person's: only they can replace it."
            ) from None
