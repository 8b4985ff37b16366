"""What a job is, and what can be seen of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

MOST_OWNER_CHARACTERS = 50


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of a job. None: as much as there is."""

    wall_seconds: float | None = None
    memory_bytes: int | None = None
    """Of address space where the job is a process, of the container's memory where it is one."""
    cpus: int | None = None
    network: bool = True
    nice: int = 0
    """By how much it stands back behind what serves (nice(2))."""


@dataclass(frozen=True, slots=True)
class JobContainer:
    """Container of a job; a job that is a process is told nothing of it."""

    image: str = ""
    """By digest, `repository@sha256:...`; empty: the one that its cluster has for jobs."""
    is_privileged: bool = False
    """It reaches the machine's own processes and devices."""
    gpus: int = 0
    """Set aside for it."""
    directories: tuple[str, ...] = ()
    """Of its machine, by their paths, which are the same within it; made where they are missing. It is root
    then, as who made them."""
    machines: tuple[str, ...] = ()
    """Names of those that may run it, where its runner has more than one."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A program to be run once."""

    op_key: str
    """Under which it was ordered: the same key is the same job, whoever orders it and however often."""
    owner: str
    """What it works for, see `owner_of`."""
    argv: tuple[str, ...]
    """No secret: other people's processes can read a command line."""
    environment: tuple[str, ...] = ()
    """Names of the variables that it is given of the starter's own, or patterns such as `AWS_*`; it is given
    no other."""
    stdin: bytes = field(default=b"", repr=False)
    """What it reads: the place for secrets, which never come to lie on a disk."""
    limits: JobLimits = JobLimits()
    container: JobContainer = JobContainer()

    @property
    def name(self) -> str:
        """At most 63 lower-case characters, digits and dashes: what Kubernetes allows as a name."""
        return f"{self.owner}-{hashlib.sha256(self.op_key.encode()).hexdigest()[:12]}"


def owner_of(kind: str, pk: object) -> str:
    """`models-registry-version-7`, of the row 7 of kind `models_registry.version`."""
    plain = "".join(one if one.isascii() and one.isalnum() else "-" for one in f"{kind}-{pk}".lower())
    if len(plain) <= MOST_OWNER_CHARACTERS:
        return plain
    # The end tells rows apart, and names of kinds may begin alike.
    return (
        f"{hashlib.sha256(plain.encode()).hexdigest()[:8]}-{plain[-(MOST_OWNER_CHARACTERS - 9) :].strip('-')}"
    )


def is_of(name: str, owner: str) -> bool:
    """Whether the job of this name works for that owner."""
    return name.rpartition("-")[0] == owner


class JobState(StrEnum):
    WAITING = "waiting"
    """It is ordered and has not begun."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """It ended with status 0."""
    FAILED = "failed"
    GONE = "gone"
    """There is no job of that name: never ordered, collected, or removed when its time to live was over."""


LIVE = frozenset({JobState.WAITING, JobState.RUNNING})


class Ending(StrEnum):
    """Why a job ended."""

    NONE = ""
    COMPLETED = "completed"
    ERROR = "error"
    KILLED = "killed"
    """By a signal, or together with all that watched it."""
    OUT_OF_MEMORY = "out of memory"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped"
    """As asked."""
    STACK_ENDED = "stack ended"
    """The stack that it worked for has ended."""
    NO_ROOM = "no room"
    """The disk is full: it could not even say how it ended."""


BY_CIRCUMSTANCE = frozenset({Ending.STOPPED, Ending.STACK_ENDED, Ending.NO_ROOM})
"""Ends that are no failure of the job's."""


@dataclass(frozen=True, slots=True)
class JobObservation:
    """A job as it is seen from outside."""

    state: JobState
    ending: Ending = Ending.NONE
    exit_code: int | None = None
    signal: int | None = None
    why: str = ""
    """Why it ended otherwise than it should, or cannot be seen, as a sentence."""
    progress: Mapping[str, Any] | None = None
    """What it last reported of itself."""
    result: Mapping[str, Any] | None = None
    log_tail: str = ""
    """The end of what it wrote to stdout and stderr."""
    host: str = ""
    """Where it runs or ran."""
    ended_at: datetime | None = None
    unenforced: tuple[str, ...] = ()
    """Names of limits that cannot be imposed where it runs."""

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def last_words(self) -> str:
        """The last line of the log, as a sentence; empty: it wrote nothing."""
        lines = self.log_tail.strip().splitlines()
        return f"Its last words: {lines[-1][:500]}" if lines else ""
