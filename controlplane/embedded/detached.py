"""Processes that outlive their supervisord, and how the next one takes them over.

Their output goes straight into their log, not through a pipe that would break with the supervisord at its
other end. A process that another one has started is watched through a pidfd, which tells its end to anybody.
"""

import os
import select
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from supervisor.options import ProcessConfig
from supervisor.process import Subprocess
from supervisor.states import ProcessStates

from controlplane.embedded import running

LOG_MODE = 0o600


class AdoptedProcesses:
    """The processes that were there before us: found, taken over, ended."""

    def __init__(self) -> None:
        self._found: dict[str, psutil.Process] = {}
        self._watched: dict[int, tuple[int, str]] = {}
        """(pid, program) by pidfd."""

    def find(self, socket: Path, wanted: set[str]) -> list[psutil.Process]:
        """Look for the processes of the wanted programs; returns those of programs that nobody wants."""
        there = running.programs(socket)
        self._found = {name: process for name, process in there.items() if name in wanted}
        return [process for name, process in there.items() if name not in wanted]

    def take(self, name: str) -> psutil.Process | None:
        """The process of the program, once; from now on its end is noticed. None when there is none."""
        process = self._found.pop(name, None)
        if process is None:
            return None
        try:
            pidfd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return None
        if not process.is_running():  # its number was given to another one
            os.close(pidfd)
            return None
        self._watched[pidfd] = process.pid, name
        return process

    def one_that_ended(self) -> tuple[int, str] | None:
        """(pid, program); each one once."""
        if not self._watched:
            return None
        poll = select.poll()
        for pidfd in self._watched:
            poll.register(pidfd, select.POLLIN)
        for pidfd, _ in poll.poll(0):
            os.close(pidfd)
            return self._watched.pop(pidfd)
        return None


class Detached(Subprocess):  # type: ignore[misc]  # the package has no types
    def spawn(self) -> Any:
        """Start the process, or take over the one that runs."""
        there = self.config.options.adopted.take(self.config.name)
        if there is None:
            return super().spawn()
        self.laststart = there.create_time()
        self.delay = self.laststart + self.config.startsecs
        self.change_state(ProcessStates.STARTING)  # RUNNING in a moment, when it is old enough
        self.pid = there.pid
        self.config.options.pidhistory[self.pid] = self
        self.config.options.logger.info(f"took over: '{self.config.name}' with pid {self.pid}")
        return self.pid

    def _prepare_child_fds(self) -> None:
        """Give the child nothing to read, and its log to write."""
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            log = os.open(self.config.stdout_logfile, os.O_WRONLY | os.O_APPEND | os.O_CREAT, LOG_MODE)
        except OSError:  # a full disk: better without a log than not at all
            log = nothing
        for given, descriptor in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(given, descriptor)
        os.closerange(3, self.config.options.minfds)


class DetachedConfig(ProcessConfig):  # type: ignore[misc]
    def make_process(self, group: Any = None) -> Detached:
        process = Detached(self)
        process.group = group
        return process

    def make_dispatchers(self, _: Any) -> tuple[dict[int, Any], dict[str, int]]:
        return {}, {}


def trim_logs(supervisord: Any) -> None:
    """Begin anew each log of a detached process that is too large.

    Its writer keeps the file open: what it wrote is copied away and the file emptied. When the disk has no
    room for the copy, everything stays as it is.
    """
    for group in supervisord.process_groups.values():
        for process in group.processes.values():
            if isinstance(process, Detached):
                with suppress(OSError):
                    _trim(Path(process.config.stdout_logfile), process.config)


def _trim(log: Path, config: Any) -> None:
    if not log.exists() or log.stat().st_size < config.stdout_logfile_maxbytes:
        return
    copy = log.with_name(f"{log.name}.{int(time.time())}.tmp")
    try:
        shutil.copyfile(log, copy)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
    for age in range(config.stdout_logfile_backups - 1, 0, -1):
        older = log.with_name(f"{log.name}.{age}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{age + 1}"))
    copy.replace(log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
