"""The frame of every job that works in a staging area.

It reads what nobody trusts, so it has no database, no settings and no secrets; it writes into its staging
area only. One per staging area: a second one finds the lock taken and ends. It ends at once, wherever it is,
when it is stopped or when somebody asks for that through the store, from another machine; whoever comes next
on the staging area cleans up and continues.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from common.jobs.run import EXIT_BUSY, Running, run
from model_store.backends.base import Staging
from model_store.backends.opening import opened_at
from model_store.errors import StagingBusy
from model_store.processes.job import StagingJob

LOOK_EVERY_SECONDS = 0.5


class Result(Protocol):
    def as_json(self) -> dict[str, Any]: ...


Report = Callable[[Any], None]
"""Told dataclasses."""
Work = Callable[[StagingJob, Staging, Report], Result]


def work(job: StagingJob, do: Work) -> int:
    """Do a job inside its staging area and tell how it ends; the exit status of the process."""

    def inside(running: Running) -> Mapping[str, Any]:
        with opened_at(job.store).staging(job.key) as staging:
            running.at_stop(staging.leave)
            threading.Thread(target=_watch, args=(staging, running), daemon=True).start()
            return do(job, staging, lambda progress: running.report(asdict(progress))).as_json()

    try:
        return run(inside)
    except StagingBusy:
        return EXIT_BUSY


def _watch(staging: Staging, running: Running) -> None:
    while not staging.is_unwanted():
        time.sleep(LOOK_EVERY_SECONDS)
    running.stop()
