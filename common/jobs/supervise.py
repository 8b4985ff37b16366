"""The process that watches a job: `python -m common.jobs.supervise DIRECTORY LOCK PID STARTED`.

It runs the job's program with its limits in a session of its own and notes how that ends. It ends it when it
is asked to, when its time is over, and when the process that stands for its stack (PID, STARTED) is gone; if
it is killed itself, the program dies with it. LOCK: a descriptor that holds the lock of the directory.
"""

import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from common.jobs.notes import DIRECTORY, ENDED, MEMORY, STARTED, JobNotes
from common.jobs.parent_watchdog import ParentProcess
from common.jobs.spec import Ending, JobLimits, JobSpec

LOOK_EVERY_SECONDS = 0.25
STOP_WITHIN_SECONDS = 3.0
"""After this long what has not ended by itself is killed."""
MOST_LOG_BYTES = 4 * 1024 * 1024
KEPT_LOG_BYTES = 64 * 1024
EXIT_NO_PROGRAM = 127

_WAKING = {signal.SIGCHLD, signal.SIGTERM}
_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    notes = JobNotes(Path(arguments[0]))
    lock, parent = int(arguments[1]), ParentProcess(int(arguments[2]), int(arguments[3]))
    # Waited for instead of handled. Whoever ends us means the program: we stay to tell how that ended.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAKING)
    spec = notes.read_spec()
    try:
        process = _start(spec, notes, lock)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{spec.argv[0]} cannot be run: {error}\n")
        _note_end(notes, Ending.ERROR, EXIT_NO_PROGRAM)
        return 1
    ending = _watch(process, spec.limits, notes, parent)
    _note_end(notes, ending or _ending_of(process.returncode, notes), process.returncode)
    return 0


def _note_end(notes: JobNotes, ending: Ending, code: int) -> None:
    notes.write(
        ENDED,
        {
            "ending": ending,
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "at": time.time(),
        },
    )


def _start(spec: JobSpec, notes: JobNotes, lock: int) -> "subprocess.Popen[bytes]":
    unenforced = []
    if not spec.limits.network and not cut_network():
        unenforced.append("network")
    notes.write(
        STARTED,
        {
            "pid": os.getpid(),
            "at": time.time(),
            "unenforced": unenforced,
        },
    )
    return subprocess.Popen(
        spec.argv,
        env={**os.environ, DIRECTORY: str(notes.directory)},
        start_new_session=True,
        pass_fds=[lock],
        preexec_fn=lambda: _limit(spec.limits),
    )


def _limit(limits: JobLimits) -> None:
    """Set the limits in the child, before it becomes the program."""
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAKING)
    os.nice(limits.nice)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    if limits.cpus is not None:
        here = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, random.sample(here, min(limits.cpus, len(here))))


def die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def cut_network() -> bool:
    """Leave this process, and what it starts, no network but a loopback of its own; whether that can be."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        # In a namespace of its own it would lose the right to read other people's files.
        return bool(_libc.unshare(_CLONE_NEWNET) == 0)
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def _watch(
    process: "subprocess.Popen[bytes]", limits: JobLimits, notes: JobNotes, parent: ParentProcess
) -> Ending:
    """Wait for its end, and see to it; NONE when it ended by itself."""
    until = None if limits.wall_seconds is None else time.monotonic() + limits.wall_seconds
    reasons: list[tuple[Ending, Callable[[], bool]]] = [
        (Ending.STOPPED, lambda: notes.is_to_stop),
        (Ending.STACK_ENDED, lambda: not parent.is_alive),
        (Ending.TIME_LIMIT, lambda: until is not None and time.monotonic() > until),
    ]
    while not _has_ended(process, LOOK_EVERY_SECONDS, notes):
        for ending, is_so in reasons:
            if is_so():
                _end(process, notes)
                return ending
        _cut_log(notes.log)
    _kill_rest(process)
    return Ending.NONE


def _has_ended(process: "subprocess.Popen[bytes]", seconds: float, notes: JobNotes) -> bool:
    """Whether it has, within this time."""
    if process.poll() is None:
        woken = signal.sigtimedwait(_WAKING, seconds)
        if woken is not None and woken.si_signo == signal.SIGTERM:
            notes.ask_to_stop()
    return process.poll() is not None


def _end(process: "subprocess.Popen[bytes]", notes: JobNotes) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_SECONDS
    while not _has_ended(process, LOOK_EVERY_SECONDS, notes) and time.monotonic() < deadline:
        pass
    _kill_rest(process)
    process.wait()


def _kill_rest(process: "subprocess.Popen[bytes]") -> None:
    """Kill what the program has started and left in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending_of(code: int, notes: JobNotes) -> Ending:
    if notes.read(MEMORY) is not None:
        return Ending.OUT_OF_MEMORY
    if code == 0:
        return Ending.COMPLETED
    return Ending.KILLED if code < 0 else Ending.ERROR


def _cut_log(log: Path) -> None:
    """Keep its end: a program that talks without an end would fill the disk."""
    with suppress(OSError), log.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size > MOST_LOG_BYTES:
            file.seek(size - KEPT_LOG_BYTES)
            end = file.read()
            file.truncate(0)
            with log.open("ab") as again:
                again.write(end)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
