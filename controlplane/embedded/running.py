"""What runs of a home, read from the process table: it needs no file, so it holds on a full disk and after
any crash.

Every process below a supervisord carries a mark in its environment. A supervisord's own children carry their
own number in it, their descendants inherit that and so are told from them.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

CONTROL, DATA = "control", "data"
"""The two planes. What belongs to the data plane answers model traffic, and outlives whoever started it."""
MARK = "SLIPWAY_SUPERVISED"
KILL_WITHIN_SECONDS = 10.0
SUPERVISORD = "controlplane.embedded.supervisord"


def mark(pid: int, name: str, socket: Path) -> str:
    """The mark of the process `pid`, which runs the program `name` of the supervisord behind this socket."""
    return f"{pid}:{name}:{os.path.realpath(socket)}"


def programs(socket: Path) -> dict[str, psutil.Process]:
    """The processes that supervisords behind this socket have started and that live, by program."""
    return {name: process for process, pid, name in _marked(socket) if process.pid == pid}


def descendants(socket: Path, name: str = "") -> list[psutil.Process]:
    """Find those processes and all that they started, of one program or (default) of all."""
    return [process for process, _, program in _marked(socket) if not name or program == name]


def supervisords(conf: Path) -> list[psutil.Process]:
    """Every supervisord that runs with this configuration, however it is doing."""
    found = []
    for process in _own():
        with suppress(psutil.Error):
            words = process.cmdline()
            if SUPERVISORD in words and os.path.realpath(words[-1]) == os.path.realpath(conf):
                found.append(process)
    return found


def kill(processes: list[psutil.Process]) -> list[psutil.Process]:
    """SIGKILL them and wait until they have ended; those that the kernel does not let go."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return _not_ended(processes, KILL_WITHIN_SECONDS)


def end(process: psutil.Process, *, within_seconds: float) -> None:
    """SIGTERM, and SIGKILL after the time."""
    with suppress(psutil.NoSuchProcess):
        process.terminate()
    kill(_not_ended([process], within_seconds))


def _not_ended(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if lives(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return left


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _marked(socket: Path) -> Iterator[tuple[psutil.Process, int, str]]:
    """(process, number in its mark, program) of all that carry the mark of this socket."""
    here = os.path.realpath(socket)
    for process in _own():
        with suppress(psutil.Error):
            environ: Mapping[str, str] = process.environ()
            pid, _, rest = environ.get(MARK, "").partition(":")
            name, _, of = rest.partition(":")
            if of == here and pid.isdecimal() and lives(process):
                yield process, int(pid), name


def _own() -> Iterator[psutil.Process]:
    """This user's processes; another user's environment could not be read anyway."""
    user = os.geteuid()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().effective == user:
                yield process
