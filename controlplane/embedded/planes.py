"""The supervisord of each plane: started, watched, started again, stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters.backends.supervisor_rpc import SupervisedProgram
from common import files
from controlplane.embedded import running
from controlplane.embedded.home import Plane
from controlplane.embedded.processes import PartFailed, ProcessFamily, die_with, say
from controlplane.embedded.programs import supervisord_conf
from controlplane.environment import PROJECT

FAILED_AFTER_STARTS = 3
LIVED_SECONDS = 10.0
"""One that ends sooner has failed to start."""


class Spawner:
    """Starts this Python in a session of its own: the terminal's signals are the launcher's alone."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    def spawn(self, *arguments: str, dies_by: signal.Signals | None = signal.SIGKILL, **options: Any) -> int:
        """The child's pid. `dies_by`: what it gets when we end; None: nothing, it goes on."""
        own_pid = os.getpid()
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=PROJECT,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=(lambda: die_with(own_pid, dies_by)) if dies_by else None,  # safe: we have one thread
            **options,
        )
        child.returncode = (
            0  # the ProcessFamily reaps; without a code Popen would try to, when it is collected
        )
        return child.pid


class Supervisord:
    """Supervisor of one plane. Its processes survive it or not, as the plane wants (supervisord.py)."""

    def __init__(
        self, plane: Plane, *, family: ProcessFamily, spawner: Spawner, title: str, **options: Any
    ) -> None:
        """`title`: what the person at the terminal calls its processes. `options`: for each start of it."""
        self._plane = plane
        self._family = family
        self._spawner = spawner
        self._title = title
        self._options = options
        self._pid = 0
        self._started = 0.0
        self._failed_starts = 0

    def configure(self, programs: Sequence[SupervisedProgram], *, include: str = "") -> None:
        """Raises OSError."""
        files.replace(
            self._plane.conf, supervisord_conf(list(programs), self._plane, include=include).encode()
        )

    def start(self) -> None:
        """Start in the place of one that still runs: only killing it is reliable, and does no harm."""
        running.kill(running.supervisords(self._plane.conf))
        self._plane.socket.unlink(missing_ok=True)
        with _log_or_nothing(self._plane.output) as output:
            self._pid = self._spawner.spawn(
                *("-m", running.SUPERVISORD, "-c", str(self._plane.conf)),
                stdout=output,
                stderr=output,
                **self._options,
            )
        self._started = time.monotonic()

    @property
    def has_ended(self) -> bool:
        return bool(self._pid) and self._family.exit_code(self._pid) is not None

    def keep_up(self) -> None:
        """Start it again when it has ended. Raises PartFailed when it does not stay up."""
        if not self.has_ended:
            return
        how = _ending(self._family.exit_code(self._pid) or 0)
        lived = time.monotonic() - self._started >= LIVED_SECONDS
        self._failed_starts = 0 if lived else self._failed_starts + 1
        if self._failed_starts >= FAILED_AFTER_STARTS:
            said = tail(self._plane.output)
            raise PartFailed(f"supervisord of {self._title} ends again and again ({how}). {said}".rstrip())
        say(f"supervisord of {self._title} ended ({how}); it is started again.")
        self.start()

    def stop(self, until: Callable[[], bool]) -> None:
        """Have it stop its processes in order, and wait for that or until `until` says so."""
        if not self._pid or self.has_ended:
            return
        os.kill(self._pid, signal.SIGTERM)
        while not self.has_ended and not until():
            pass

    def kill_the_rest(self) -> None:
        """All that it has left, in order or not."""
        if left := running.kill(running.descendants(self._plane.socket)):
            say(f"Cannot be killed: {', '.join(f'process {process.pid}' for process in left)}")


def _log_or_nothing(path: Path) -> Any:
    """A file to write to, or nothing when the disk has no room for one."""
    with suppress(OSError):
        return path.open("wb")
    return Path(os.devnull).open("wb")


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def tail(log: Path, lines: int = 15) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
