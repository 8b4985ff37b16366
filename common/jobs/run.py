"""The frame of a job that is our own Python: notes of progress, a result, an end as soon as it is asked for.

What runs in it has no Django, no database and no settings; a secret comes through its standard input.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.jobs.notes import DIRECTORY, MEMORY, PROGRESS, RESULT, JobNotes

EXIT_NO_JOB, EXIT_NO_ROOM, EXIT_BUSY, EXIT_STOPPED, EXIT_MEMORY = 2, 74, 75, 76, 77


class Running:
    """The job from inside."""

    def __init__(self, notes: JobNotes) -> None:
        self._notes = notes
        self._at_stop: list[Callable[[], None]] = []

    def report(self, progress: Mapping[str, Any]) -> None:
        """Say how far it has come; what cannot be said on a full disk is left out."""
        with suppress(OSError):
            self._notes.write(PROGRESS, progress)

    def at_stop(self, leave: Callable[[], None]) -> None:
        """Call this, from another thread, before the process ends because it was asked to."""
        self._at_stop.append(leave)

    def stop(self) -> None:
        """End at once, wherever the work is: a read from a dead file server never returns."""
        for leave in self._at_stop:
            with suppress(Exception):
                leave()
        os._exit(EXIT_STOPPED)


Work = Callable[[Running], Mapping[str, Any] | None]


def run(work: Work) -> int:
    """Do the work and note its result; the exit status of the process."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        sys.stderr.write(f"{DIRECTORY} is not set: this runs as a job only.\n")
        return EXIT_NO_JOB
    notes = JobNotes(Path(directory))
    running = Running(notes)
    # Blocked in all threads, and waited for in one: a handler would wait for the main thread's next step.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=_stop_when_told, args=(running,), daemon=True).start()
    try:
        result = work(running)
        if result is not None:
            notes.write(RESULT, result)
    except MemoryError:
        notes.write(MEMORY, {})
        return EXIT_MEMORY
    return 0


def read_json() -> Any:
    """Read the job's input from its standard input."""
    return json.load(sys.stdin)


def _stop_when_told(running: Running) -> None:
    signal.sigwait([signal.SIGTERM])
    running.stop()
