"""What steps ask of the place where jobs run, in our words."""

from typing import Protocol

from common.errors import Unavailable
from common.jobs.spec import JobObservation, JobSpec


class NoRoomForJob(Unavailable):
    """The job was not started: there is no room for what it would write."""


class JobRunner(Protocol):
    """A job has one name for ever: its second start is none, also after it has ended.

    Whatever keeps a runner from answering is raised as `Unavailable`.
    """

    @property
    def host(self) -> str:
        """Host of its jobs, as `common.hosts` names it: only a runner of the same host sees them. Empty: any
        sees them.
        """

    @property
    def lane(self) -> str:
        """The outside system that each call waits for, as `Reconciler.lane_of` names it; empty: none."""

    def start(self, spec: JobSpec) -> None:
        """See to it that the job was started. Raises NoRoomForJob."""

    def observe(self, name: str) -> JobObservation: ...

    def log(self, name: str, *, lines: int) -> str:
        """The end of what it has written, while it runs too; empty: nothing yet, or it is not there."""

    def stop(self, name: str) -> None:
        """Have it end, soon; one that has ended, or is not there, has."""

    def remove(self, name: str) -> None:
        """Forget a job that has ended, and all that it left; one that lives stays."""

    def names(self, owner: str) -> list[str]:
        """The jobs of an owner that are there, live or ended."""
