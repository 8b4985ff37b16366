"""The frame of every process that works in an intake.

It reads what nobody trusts, so it has no database, no settings and no secrets; it writes into its intake
only, and its result into a note there. One per intake: a second one finds the lock taken and ends. It ends at
once, wherever it is, when it is asked to stop or when the process that stands for its stack is gone; whoever
comes next on the intake cleans up and continues.
"""

import json
import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from models_registry.errors import IntakeBusy
from models_registry.importing.results import ImportResult
from models_registry.processes import guardian
from models_registry.processes.job import PROGRESS, RESULT, STARTED, Job
from models_registry.store import Intake, opened_at

LOOK_EVERY_SECONDS = 0.25
MEMORY_BYTES = 6 * 1024**3
"""Far above what parsing needs; it ends a process that a crafted file makes swell."""
EXIT_BUSY, EXIT_STOPPED = 75, 76


def step_back() -> None:
    """Take second place behind whatever serves, and no more memory than parsing can need."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Result(Protocol):
    def as_json(self) -> dict[str, Any]: ...


Work = Callable[[Job, Intake, Callable[[Any], None]], Result]
"""It reports dataclasses."""


def work(job: Job, do: Work) -> int:
    """Do a job inside its intake and note how it ends; the exit status of the process."""
    step_back()
    try:
        with opened_at(job.store).intake(job.key) as intake:
            note(intake, job, STARTED, {"pid": os.getpid(), "host": socket.gethostname()})
            threading.Thread(target=_watch, args=(job, intake), daemon=True).start()
            run(job, intake, do)
    except IntakeBusy:
        return EXIT_BUSY
    return 0


def run(job: Job, intake: Intake, do: Work) -> None:
    def report(progress: Any) -> None:
        note(intake, job, PROGRESS, asdict(progress))

    result: Result
    try:
        result = do(job, intake, report)
    except MemoryError:
        result = ImportResult(
            "failed", reason="A file needs more memory to be checked than an import may take."
        )
    note(intake, job, RESULT, result.as_json())


def note(intake: Intake, job: Job, name: str, content: dict[str, Any]) -> None:
    intake.write_note(name, json.dumps({"attempt": job.attempt, **content}).encode())


def _watch(job: Job, intake: Intake) -> None:
    """Ends the process from outside of whatever it is doing: a read from a dead file server never returns."""
    found = guardian.of(job)
    while not intake.is_unwanted() and guardian.is_alive(found):
        time.sleep(LOOK_EVERY_SECONDS)
    intake.leave()
    os._exit(EXIT_STOPPED)
