"""The frame of every job that works in an intake.

It reads what nobody trusts, so it has no database, no settings and no secrets; it writes into its intake
only. One per intake: a second one finds the lock taken and ends. It ends at once, wherever it is, when it is
stopped or when somebody asks for that through the store, from another machine; whoever comes next on the
intake cleans up and continues.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from common.jobs.run import EXIT_BUSY, Running, run
from model_store.backends import opened_at
from model_store.backends.base import Intake
from model_store.errors import IntakeBusy
from model_store.processes.job import Job

LOOK_EVERY_SECONDS = 0.5


class Result(Protocol):
    def as_json(self) -> dict[str, Any]: ...


Report = Callable[[Any], None]
"""Told dataclasses."""
Work = Callable[[Job, Intake, Report], Result]


def work(job: Job, do: Work) -> int:
    """Do a job inside its intake and tell how it ends; the exit status of the process."""

    def inside(running: Running) -> Mapping[str, Any]:
        with opened_at(job.store).intake(job.key) as intake:
            running.at_stop(intake.leave)
            threading.Thread(target=_watch, args=(intake, running), daemon=True).start()
            return do(job, intake, lambda progress: running.report(asdict(progress))).as_json()

    try:
        return run(inside)
    except IntakeBusy:
        return EXIT_BUSY


def _watch(intake: Intake, running: Running) -> None:
    while not intake.is_unwanted():
        time.sleep(LOOK_EVERY_SECONDS)
    running.stop()
