"""The interface of clusters that run training and batch jobs, which can be suspended and resumed."""

from collections.abc import Mapping, Sequence
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
    cards: int
    machine: str = ""
    visible: tuple[int, ...] = ()
    """Numbers of the cards that a process may see; empty: those of its machine are not ours to number."""
    machines: int = 1
    """On each of which one part of it runs: all of them at once. The variables `SLIPWAY_RANK` (from 0),
    `SLIPWAY_MACHINES` and `SLIPWAY_LEADER` (host of rank 0) tell a part of the others."""
    rest: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Machines after the first, by rank, with the visible cards there."""
    image: str = ""
    claim: str = ""
    checkpoint_seconds: int = 0
    """For which it may be asked to write a checkpoint; 0: it writes none."""
    queue: str = ""
    """Name of the quota whose holder decides when it runs, and where; empty: it runs on `machine` at once."""
    priority: int = 0
    """Its priority in that queue."""

    @property
    def places(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return ((self.machine, self.visible), *self.rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorkload:
    state: JobState
    """Of the run; FAILED too where it was stopped, GONE where it never began."""
    is_queued: bool = False
    """The queue of its cluster holds it back: it was not admitted yet, or was evicted; `why` says so."""
    is_stopped: bool = False
    """It ended since it, or the stack that it worked for, was told to."""
    why: str = ""
    checkpoint_at: datetime | None = None
    """When it last said that a checkpoint is written."""
    answered: str = ""
    """The request for a checkpoint that it has answered last."""
    log_tail: str = ""
    """Of a run that has ended."""


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

    def log(self, name: str, run: int, *, lines: int) -> str:
        """The end of what the run has written, while it runs too; of several machines the first one's. Empty:
        nothing yet, or it is not there."""

    def blocked_by(self, name: str) -> str:
        """Name of a disruption budget that allows the workload's pods no disruption now; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Cards that a pool has for workloads that others admit, and what it lends and borrows in its cohort."""

    name: str
    machines: Mapping[str, str]
    """Labels of its machines."""
    cards: int
    """Of its machines."""
    guarantee: int
    lending_limit: int | None = None
    borrowing_limit: int | None = None
    is_stopped: bool = False
    """Nothing is admitted; what runs goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedWorkload:
    name: str
    why: str
    """State of the workload in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedQuota:
    problem: str
    """Why nothing is admitted, in words; empty: workloads are."""
    used: int
    borrowed: int
    """Of `used`, cards of other pools."""
    admitted: int
    pending: int
    """Numbers of workloads."""
    workloads: tuple[QueuedWorkload, ...]
    """Those that wait."""


class QuotaKeeper(Protocol):
    """Quotas as whoever admits workloads in the cluster has them.

    Raises ClusterUnreachable, and OperationUnsupported where nobody admits any.
    """

    def put(self, cohort: Sequence[Quota]) -> None:
        """Let these be the quotas, which lend to each other; those of other names are removed."""

    def observe(self, name: str) -> ObservedQuota | None:
        """Return what the cluster says of a quota; None where there is none of that name."""


@runtime_checkable
class KeepsQuotas(Protocol):
    """A backend in whose cluster others may admit workloads."""

    @property
    def quotas(self) -> QuotaKeeper: ...


@runtime_checkable
class RunsWorkloads(Protocol):
    """A backend that runs workloads."""

    @property
    def workloads(self) -> WorkloadRunner: ...
