"""The interface of clusters that run training and batch jobs, which can be suspended and resumed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from common.jobs.spec import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """A run of a workload: the first one begins its work, later ones go on from its checkpoint."""

    name: str
    """At most 40 lower-case characters, digits and dashes; the same for all runs."""
    run: int
    argv: tuple[str, ...]
    machine: str
    cards: int
    visible: tuple[int, ...] = ()
    """Numbers of the cards that a process may see; empty: those of its machine are not ours to number."""
    image: str = ""
    claim: str = ""
    checkpoint_seconds: int = 0
    """For which it may be asked to write a checkpoint; 0: it writes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorkload:
    state: JobState
    """Of the run; FAILED too where it was stopped, GONE where it never began."""
    is_stopped: bool = False
    """It ended since it, or the stack that it worked for, was told to."""
    why: str = ""
    checkpoint_at: datetime | None = None
    """When it last said that a checkpoint is written."""
    answered: str = ""
    """The request for a checkpoint that it has answered last."""
    log_tail: str = ""


class WorkloadRunner(Protocol):
    """Orders of a run are repeatable, and those of an earlier run do nothing to a later one.

    Raises Unavailable, and OperationUnsupported for what this cluster cannot run.
    """

    def start(self, spec: WorkloadSpec) -> None:
        """See to it that the run was started: once, also if it has ended since."""

    def ask_checkpoint(self, name: str, run: int, request: str) -> None:
        """Tell the run to write a checkpoint; `observe` shows when it has answered this request."""

    def stop(self, name: str, run: int) -> None:
        """Suspend the workload: the run ends soon, and no other begins before it is started again."""

    def observe(self, name: str, run: int) -> ObservedWorkload: ...

    def blocked_by(self, name: str) -> str:
        """Name of a disruption budget that allows the workload's pods no disruption now; empty: none."""


@runtime_checkable
class RunsWorkloads(Protocol):
    """A backend that runs workloads."""

    @property
    def workloads(self) -> WorkloadRunner: ...
