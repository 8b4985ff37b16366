"""The contract of every job runner; jobs of real processes where it runs some."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from common import disk
from common.jobs.runners.base import JobRunner, NoRoomForJob
from common.jobs.runners.fake import FakeRunner
from common.jobs.runners.subprocess import SubprocessRunner
from common.jobs.spec import Ending, JobObservation, JobSpec, JobState
from tests.patience import eventually

PROJECT = Path(__file__).resolve().parents[2]
OWNER = "toys-errand-7"
WORK = "from common.jobs.run import run; import sys; sys.exit(run(lambda job: {body}))"


class Rig(Protocol):
    """`spec` makes a job that does so, `goes_on` sees to it that it has."""

    runner: JobRunner

    def spec(self, does: str, key: str = "errand:7:1") -> JobSpec: ...

    def goes_on(self, spec: JobSpec) -> None: ...


class ProcessRig:
    BODIES: Mapping[str, str] = {
        "ends well": "(job.report({'done': 1}), {'answer': 42})[1]",
        "fails": "sys.exit('No such bridge.')",
        "works": "(job.report({'done': 1}), __import__('time').sleep(60))[0]",
    }

    def __init__(self, root: Path) -> None:
        self.runner = SubprocessRunner(root, host="here", code=PROJECT)

    def spec(self, does: str, key: str = "errand:7:1", **options: Any) -> JobSpec:
        code = WORK.format(body=self.BODIES.get(does, does))
        return JobSpec(key, OWNER, (sys.executable, "-c", code), **options)

    def goes_on(self, spec: JobSpec) -> None:
        """Continue the job without the runner."""


class FakeRig:
    def __init__(self) -> None:
        self.runner = FakeRunner()

    def spec(self, does: str, key: str = "errand:7:1") -> JobSpec:
        return JobSpec(key, OWNER, (does,))

    def goes_on(self, spec: JobSpec) -> None:
        name = spec.name
        if self.runner.observe(name).is_live:
            self.runner.report(name, done=1)
            if spec.argv == ("ends well",):
                self.runner.finish(name, {"answer": 42})
            elif spec.argv == ("fails",):
                self.runner.die(name, Ending.ERROR, exit_code=1, log_tail="No such bridge.\n", why="1")


@pytest.fixture(params=["subprocess", "fake"])
def rig(request, tmp_path: Path) -> Iterator[Rig]:
    rig: Any = ProcessRig(tmp_path / "jobs") if request.param == "subprocess" else FakeRig()
    yield rig
    for name in rig.runner.names(OWNER):
        rig.runner.stop(name)
    eventually(lambda: not any(rig.runner.observe(name).is_live for name in rig.runner.names(OWNER)))


@pytest.fixture(autouse=True)
def _room(monkeypatch) -> None:
    monkeypatch.setattr(disk, "is_full", lambda: False)


def started(rig: Rig, spec: JobSpec) -> JobSpec:
    rig.runner.start(spec)
    rig.goes_on(spec)
    return spec


def seen_when(rig: Rig, spec: JobSpec, so: Callable[[JobObservation], bool]) -> JobObservation:
    seen: list[JobObservation] = []

    def look() -> bool:
        seen.append(rig.runner.observe(spec.name))
        return so(seen[-1])

    eventually(look, every=0.05)
    return seen[-1]


def ended(rig: Rig, spec: JobSpec) -> JobObservation:
    return seen_when(rig, spec, lambda seen: not seen.is_live)


def at_work(rig: Rig, spec: JobSpec) -> JobObservation:
    return seen_when(rig, spec, lambda seen: seen.progress is not None)


def test_a_job_tells_how_far_it_is_and_what_came_of_it(rig) -> None:
    seen = ended(rig, started(rig, rig.spec("ends well")))
    assert (seen.state, seen.ending, seen.exit_code) == (JobState.SUCCEEDED, Ending.COMPLETED, 0)
    assert (seen.progress, seen.result, seen.why) == ({"done": 1}, {"answer": 42}, "")
    assert seen.host == rig.runner.host


def test_a_job_that_fails_leaves_its_status_and_its_last_words(rig) -> None:
    spec = rig.spec("fails")
    seen = ended(rig, started(rig, spec))
    assert (seen.state, seen.ending, seen.exit_code, seen.result) == (JobState.FAILED, Ending.ERROR, 1, None)
    assert seen.why
    assert seen.last_words == "Its last words: No such bridge."
    assert rig.runner.log(spec.name, lines=1).strip() == "No such bridge."
    assert rig.runner.log("nothing", lines=1) == ""


def test_a_second_start_is_none_while_it_runs_and_after_it_has_ended(rig) -> None:
    spec = started(rig, rig.spec("works"))
    first = at_work(rig, spec)
    rig.runner.start(spec)
    assert rig.runner.names(OWNER) == [spec.name]
    assert rig.runner.observe(spec.name) == first
    rig.runner.stop(spec.name)
    over = ended(rig, spec)
    rig.runner.start(spec)
    assert rig.runner.observe(spec.name) == over


def test_a_job_ends_when_it_is_stopped(rig) -> None:
    spec = started(rig, rig.spec("works"))
    at_work(rig, spec)
    rig.runner.stop(spec.name)
    seen = ended(rig, spec)
    assert (seen.state, seen.ending, seen.why) == (JobState.FAILED, Ending.STOPPED, "It was stopped.")
    rig.runner.stop(spec.name)
    rig.runner.stop("toys-errand-7-ffffffffffff")


def test_what_has_ended_can_be_removed_and_what_lives_stays(rig) -> None:
    live, over = started(rig, rig.spec("works")), started(rig, rig.spec("ends well", "errand:7:2"))
    ended(rig, over)
    at_work(rig, live)
    assert rig.runner.names(OWNER) == sorted([live.name, over.name])
    assert rig.runner.names("toys-errand-77") == rig.runner.names("toys-errand") == []
    for name in (live.name, over.name, over.name):
        rig.runner.remove(name)
    assert rig.runner.names(OWNER) == [live.name]
    assert rig.runner.observe(over.name).state is JobState.GONE
    assert rig.runner.observe(live.name).state is JobState.RUNNING


def test_on_a_full_disk_none_is_started(rig, monkeypatch) -> None:
    spec = rig.spec("ends well")
    monkeypatch.setattr(disk, "is_full", lambda: True)
    with pytest.raises(NoRoomForJob):
        rig.runner.start(spec)
    assert rig.runner.names(OWNER) == []
    monkeypatch.setattr(disk, "is_full", lambda: False)
    assert ended(rig, started(rig, spec)).state is JobState.SUCCEEDED
