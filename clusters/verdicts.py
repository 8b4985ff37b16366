"""The state of a deployment, judged from its workers, with a reason for its row. Pure: no clock, no I/O."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from clusters.states import DeploymentState, WorkerState

MANY_CRASHES = 3
"""Ends by itself, without having been ready for a while in between, that make a worker count as failing."""
READY_FOR_A_WHILE = timedelta(seconds=30)
GIVEN_UP_AFTER = timedelta(seconds=10)
"""A worker without a process is started again sooner than this, or not at all."""
LONGEST_LINE = 400

_ERROR = re.compile(r"(?:^|\s)(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Killed)\b")


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    name: str
    state: str
    state_since: datetime
    has_process: bool
    reason: str = ""
    crashes: int = 0
    crashes_since: datetime | None = None
    crashed_at: datetime | None = None
    crash_line: str = ""


@dataclass(frozen=True, slots=True)
class WorkerVerdict:
    state: DeploymentState
    reason: str
    """Empty when there is nothing to explain."""


def verdict(*, wanted: int, workers: Iterable[WorkerFacts], was_ready: bool, now: datetime) -> WorkerVerdict:
    """`was_ready`: all wanted workers have been ready since the wish last changed."""
    found = sorted(workers, key=lambda worker: worker.name)
    failing = [worker for worker in found if is_failing(worker, now=now)]
    if failing:
        worst = max(failing, key=lambda worker: worker.crashes)
        others = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        return WorkerVerdict(DeploymentState.FAILING, failure(worst) + others)
    ready = sum(worker.state == WorkerState.READY for worker in found)
    if ready >= wanted:
        return WorkerVerdict(DeploymentState.READY, "")
    reason = f"{ready} of {wanted} {'worker is' if wanted == 1 else 'workers are'} ready"
    crashed = next((worker for worker in found if worker.state != WorkerState.READY and worker.crashes), None)
    if crashed:
        reason += f"; {failure(crashed)}"
    return WorkerVerdict(DeploymentState.DEGRADED if was_ready else DeploymentState.STARTING, reason)


def held_back(found: WorkerVerdict, refusal: str) -> WorkerVerdict:
    """Return the verdict for workers whose desired state the cluster refuses.

    Workers that answer go on; missing ones do not come by themselves.
    """
    if found.state == DeploymentState.READY:
        return WorkerVerdict(found.state, refusal)
    if found.state == DeploymentState.DEGRADED:
        return WorkerVerdict(found.state, f"{found.reason.rstrip('.')}. {refusal}")
    return WorkerVerdict(DeploymentState.FAILING, refusal)


def is_failing(worker: WorkerFacts, *, now: datetime) -> bool:
    """Whether it will not become ready by itself: it keeps crashing, its engine failed, it was given up."""
    if worker.state == WorkerState.READY:
        return False
    if worker.crashes >= MANY_CRASHES:
        return True
    is_left_alone = worker.has_process or now - worker.state_since >= GIVEN_UP_AFTER
    return worker.state == WorkerState.FAILED and is_left_alone


def failure(worker: WorkerFacts) -> str:
    """`chat-v2-1 exited 3 times in 20 s: RuntimeError: ...`"""
    said = f"{worker.name} failed"
    if worker.crashes and worker.crashes_since and worker.crashed_at:
        seconds = round((worker.crashed_at - worker.crashes_since).total_seconds())
        said = f"{worker.name} exited"
        if worker.crashes > 1:
            said += f" {worker.crashes} times in {max(1, seconds)} s"
    because = [part for part in (worker.reason, worker.crash_line) if part]
    if len(because) == 2 and because[1] in because[0]:
        del because[1]
    return ": ".join([said, *because])


def _told(line: str) -> str:
    """Return the message of a log line; of one that is JSON its message, then its traceback."""
    if not line.startswith("{"):
        return line
    try:
        document = json.loads(line)
    except ValueError:
        return line
    return "\n".join(str(document[name]) for name in ("message", "exception") if document.get(name)) or line


def error_line(text: str) -> str:
    """The last exception that a log tells of; empty when it tells of none."""
    lines = (told for line in text.splitlines() for told in _told(line).splitlines())
    errors = [line.strip() for line in lines if _ERROR.search(line)]
    best = errors[-1] if errors else ""
    return best if len(best) <= LONGEST_LINE else f"{best[: LONGEST_LINE - 1]}…"
