"""Jobs as processes of this machine, each with a directory of its own that tells about it.

A job outlives the process that has started it: whoever looks into the directory next, after a restart too,
finds it. A lock that its processes inherit tells whether it lives, so that no number of a process is trusted.
"""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from django.conf import settings

from common import disk
from common.hosts import this_host
from common.jobs import parent_watchdog
from common.jobs.notes import ENDED, PROGRESS, RESULT, STARTED, JobNotes
from common.jobs.runners.base import NoRoomForJob
from common.jobs.spec import Ending, JobObservation, JobSpec, JobState, is_of

BASIC_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
"""Variables that every program may need, and that hold no secret."""
TIME_TO_LIVE_SECONDS = 7 * 24 * 3600.0
"""After this long a job that has ended and that nobody has collected is removed."""
MOST_LOG_BYTES = 256 * 1024
_REMOVED = ".removed-"

_WHY = {
    Ending.OUT_OF_MEMORY: "It needed more memory than it may take.",
    Ending.TIME_LIMIT: "It took longer than it may.",
    Ending.STOPPED: "It was stopped.",
    Ending.STACK_ENDED: "The stack that it worked for has ended.",
    Ending.NO_ROOM: "The disk is full.",
}

_started: list[subprocess.Popen[bytes]] = []
"""By this process: it has to ask for their end, or they stay as zombies."""


class SubprocessRunner:
    """See `JobRunner`. `root`: the directory of their directories, on a disk of this machine."""

    lane = ""

    def __init__(
        self, root: Path, *, host: str, code: Path, is_full: Callable[[], bool] | None = None
    ) -> None:
        """`code`: where their programs run. `is_full`: whether the disk is; default: that of the home."""
        self.host = host
        self._root = root
        self._code = code
        self._is_full = is_full or (lambda: disk.is_full())

    def start(self, spec: JobSpec) -> None:
        notes = self._notes(spec.name)
        if notes.read(STARTED) is not None:
            return
        if self._is_full():
            raise NoRoomForJob("The disk is full: no job is started before there is room.", retry_after_s=10)
        self._remove_old()
        notes.directory.mkdir(parents=True, exist_ok=True)
        lock = notes.lock()
        if lock is None:
            return
        try:
            if notes.read(STARTED) is None:
                notes.write_spec(spec)
                self._spawn(spec, notes, lock)
        finally:
            os.close(lock)

    def _spawn(self, spec: JobSpec, notes: JobNotes, lock: int) -> None:
        """Start the process, which holds the lock from its first moment on."""
        _started[:] = [process for process in _started if process.poll() is None]
        stack = parent_watchdog.present()
        argv = (notes.directory, lock, stack.pid, stack.started)
        # Never on a disk, whole from the beginning, and nobody has to wait until it is read.
        given = os.memfd_create(spec.name, os.MFD_CLOEXEC)
        try:
            with notes.log.open("ab") as log:
                with os.fdopen(given, "wb", closefd=False) as stdin:
                    stdin.write(spec.stdin)
                os.lseek(given, 0, os.SEEK_SET)
                _started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "common.jobs.supervise", *map(str, argv)],
                        cwd=self._code,
                        env=environment_of(spec),
                        stdin=given,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        pass_fds=[lock],
                    )
                )
        finally:
            os.close(given)

    def observe(self, name: str) -> JobObservation:
        notes = self._notes(name)
        if not name or not notes.directory.exists():
            return JobObservation(JobState.GONE, why="There is no such job.")
        # First of all: what ends in between has noted it by then.
        is_live = notes.is_locked()
        started, ended = notes.read(STARTED), notes.read(ENDED)
        if started is None:
            # Its first process has not come so far yet, or never did: then another start is its first.
            if is_live:
                return JobObservation(JobState.WAITING, host=self.host)
            return JobObservation(JobState.GONE, why="It never began.")
        seen: dict[str, Any] = {
            "host": self.host,
            "progress": notes.read(PROGRESS),
            "unenforced": tuple(started["unenforced"]),
        }
        if is_live:
            return JobObservation(JobState.RUNNING, **seen)
        seen |= {"log_tail": notes.log_tail(), "result": notes.read(RESULT)}
        if ended is None:
            return self._ended_silently(seen)
        ending, code, signal = Ending(ended["ending"]), ended["exit_code"], ended["signal"]
        if ending is Ending.COMPLETED:
            state = JobState.SUCCEEDED
        else:
            state = JobState.FAILED
            if self._is_full():
                ending = Ending.NO_ROOM
            seen["why"] = _WHY.get(ending) or (
                f"It was ended by signal {signal}." if signal else f"It ended with status {code}."
            )
        at = datetime.fromtimestamp(ended["at"], UTC)
        return JobObservation(state, ending=ending, exit_code=code, signal=signal, ended_at=at, **seen)

    def _ended_silently(self, seen: dict[str, Any]) -> JobObservation:
        ending = Ending.NO_ROOM if self._is_full() else Ending.KILLED
        why = _WHY.get(ending, "It was killed together with the process that watched it.")
        return JobObservation(JobState.FAILED, ending=ending, why=why, **seen)

    def log(self, name: str, *, lines: int) -> str:
        return "\n".join(self._notes(name).log_tail(MOST_LOG_BYTES).splitlines()[-lines:])

    def stop(self, name: str) -> None:
        self._notes(name).ask_to_stop()

    def remove(self, name: str) -> None:
        notes = self._notes(name)
        if notes.directory.exists() and not notes.is_locked():
            self._remove(notes.directory)

    def names(self, owner: str) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(path.name for path in self._root.iterdir() if is_of(path.name, owner))
        return []

    def _notes(self, name: str) -> JobNotes:
        return JobNotes(self._root / name)

    def _remove(self, directory: Path) -> None:
        """Under another name first: half a job is no job."""
        away = directory.with_name(f"{_REMOVED}{secrets.token_hex(8)}")
        with suppress(FileNotFoundError):
            directory.rename(away)
            shutil.rmtree(away, ignore_errors=True)

    def _remove_old(self) -> None:
        before = time.time() - TIME_TO_LIVE_SECONDS
        with suppress(FileNotFoundError):
            for path in list(self._root.iterdir()):
                with suppress(FileNotFoundError):
                    if path.name.startswith(_REMOVED):
                        shutil.rmtree(path, ignore_errors=True)
                    elif path.stat().st_mtime < before:
                        self.remove(path.name)


def environment_of(spec: JobSpec) -> dict[str, str]:
    """Return the part of our own environment that the job is given."""
    allowed = (*BASIC_ENVIRONMENT, *spec.environment)
    return {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in allowed)
    }


def local_runner() -> SubprocessRunner:
    """Return the runner of this host."""
    return SubprocessRunner(Path(settings.SLIPWAY_JOBS_DIR), host=this_host(), code=Path(settings.BASE_DIR))
