"""The process whose end means that a stack has ended: what works for the stack ends with it."""

import os
from pathlib import Path
from typing import NamedTuple


class ParentProcess(NamedTuple):
    pid: int
    started: int
    """In ticks since the machine booted: tells it from another process that is given its number later."""

    @property
    def is_alive(self) -> bool:
        state, started = _look(self.pid)
        return started == self.started and state not in ("Z", "X")


def present() -> ParentProcess:
    """Return the parent of this stack: the leader of our process group.

    Workers of a pool come and go; the leader (Celery's main process, the sweeper, a shell's job) stays.
    """
    leader = of(os.getpgrp())
    return leader if leader.is_alive else of(os.getpid())


def of(pid: int) -> ParentProcess:
    return ParentProcess(pid, _look(pid)[1])


def _look(pid: int) -> tuple[str, int]:
    """Its state and when it started, see proc(5)."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    # The name before may hold anything, brackets and spaces too.
    fields = told.rpartition(")")[2].split()
    return fields[0], int(fields[19])
