"""The process whose end means that a stack has ended: what works for the stack ends with it."""

import os
from typing import Protocol

import psutil

CLOCK_TOLERANCE_SECONDS = 5.0


def present() -> psutil.Process:
    """Of this stack: the leader of our process group.

    Workers of a pool come and go; the leader (Celery's main process, the sweeper, a shell's job) stays.
    """
    try:
        return psutil.Process(os.getpgrp())
    except psutil.NoSuchProcess:
        return psutil.Process()


class Guarded(Protocol):
    @property
    def guardian_pid(self) -> int: ...

    @property
    def guardian_started(self) -> float: ...


def of(guarded: Guarded) -> psutil.Process | None:
    """Its guardian, if that is still there and not another process that was given its number since.

    Start times are told by the wall clock, which may be set meanwhile; hence the tolerance.
    """
    try:
        process = psutil.Process(guarded.guardian_pid)
        is_same = abs(process.create_time() - guarded.guardian_started) < CLOCK_TOLERANCE_SECONDS
    except psutil.NoSuchProcess:
        return None
    return process if is_same else None


def is_alive(process: psutil.Process | None) -> bool:
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
