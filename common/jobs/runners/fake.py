"""Jobs that only tests move: in memory, by hand or by a function that stands for their program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from common import disk
from common.hosts import this_host
from common.jobs.runners.base import NoRoomForJob
from common.jobs.spec import Ending, JobObservation, JobSpec, JobState, is_of

Program = Callable[[JobSpec], Mapping[str, Any] | None]
"""Run to its end at the start of the job, and its result; None: it dies without one."""


@dataclass
class FakeRunner:
    program: Program | None = None
    host: str = field(default_factory=this_host)
    lane: str = ""
    started: list[JobSpec] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    jobs: dict[str, JobObservation] = field(default_factory=dict)
    stops_at_once: bool = True
    """Else a job goes on until a test ends it."""

    def start(self, spec: JobSpec) -> None:
        if spec.name in self.jobs:
            return
        if disk.is_full():
            raise NoRoomForJob("The disk is full: no job is started before there is room.", retry_after_s=10)
        self.started.append(spec)
        self.jobs[spec.name] = JobObservation(JobState.RUNNING, host=self.host)
        if self.program is None:
            return
        result = self.program(spec)
        if result is None:
            self.die(spec.name)
        else:
            self.finish(spec.name, result)

    def observe(self, name: str) -> JobObservation:
        return self.jobs.get(name, JobObservation(JobState.GONE, why="There is no such job."))

    def log(self, name: str, *, lines: int) -> str:
        return "\n".join(self.observe(name).log_tail.splitlines()[-lines:])

    def stop(self, name: str) -> None:
        self.stopped.append(name)
        if self.stops_at_once and self.observe(name).is_live:
            self._set(name, state=JobState.FAILED, ending=Ending.STOPPED, why="It was stopped.")

    def remove(self, name: str) -> None:
        if not self.observe(name).is_live:
            self.jobs.pop(name, None)

    def names(self, owner: str) -> list[str]:
        return sorted(name for name in self.jobs if is_of(name, owner))

    def report(self, name: str, **progress: Any) -> None:
        self._set(name, progress=progress)

    def finish(self, name: str, result: Mapping[str, Any]) -> None:
        self._set(name, state=JobState.SUCCEEDED, ending=Ending.COMPLETED, exit_code=0, result=result)

    def die(self, name: str, ending: Ending = Ending.KILLED, **seen: Any) -> None:
        if disk.is_full():
            ending = Ending.NO_ROOM
        self._set(name, state=JobState.FAILED, ending=ending, **seen)

    def lose(self, name: str) -> None:
        """Its time to live is over."""
        self.jobs.pop(name)

    @property
    def live(self) -> list[str]:
        return [name for name, seen in self.jobs.items() if seen.is_live]

    def _set(self, name: str, **seen: Any) -> None:
        self.jobs[name] = replace(self.jobs[name], **seen)
