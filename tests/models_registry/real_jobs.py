"""Jobs of the registry in real processes, one after the other in the same staging area."""

from pathlib import Path

import psutil

from common.hosts import this_host
from common.jobs.notes import STARTED, JobNotes
from common.jobs.runners.subprocess import SubprocessRunner
from common.jobs.spec import JobObservation, JobSpec
from model_store.processes.job import StagingJob
from models_registry.importing.results import ImportResult
from tests.patience import eventually

PROJECT = Path(__file__).resolve().parents[2]
OWNER = "test-row-7"


class RealJobs:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.runner = SubprocessRunner(root, host=this_host(), code=PROJECT, is_full=lambda: False)
        self.specs: list[JobSpec] = []

    def start(self, job: StagingJob) -> JobSpec:
        spec = job.spec(f"test:{len(self.specs)}", OWNER)
        self.specs.append(spec)
        self.runner.start(spec)
        return spec

    def seen(self) -> JobObservation:
        """The last one."""
        return self.runner.observe(self.specs[-1].name)

    def ended(self) -> JobObservation:
        eventually(lambda: not self.seen().is_live)
        return self.seen()

    def ends_well(self, job: StagingJob) -> dict:
        """Its result."""
        self.start(job)
        seen = self.ended()
        assert seen.result is not None, f"{seen.why} {seen.log_tail}"
        assert seen.log_tail == ""
        return dict(seen.result)

    def imports(self, job: StagingJob) -> ImportResult:
        found = ImportResult.from_json(self.ends_well(job))
        assert found.outcome == "accepted", found.reason
        return found

    def program(self) -> psutil.Process:
        """The process that does the last one's work."""
        found: list[psutil.Process] = []

        def look() -> bool:
            note = JobNotes(self.root / self.specs[-1].name).read(STARTED)
            found[:] = psutil.Process(note["pid"]).children() if note else []
            return bool(found)

        eventually(look, every=0.002)
        return found[0]

    def kill(self) -> JobObservation:
        self.program().kill()
        return self.ended()

    def stop(self) -> None:
        for spec in self.specs:
            self.runner.stop(spec.name)
        for _ in self.specs[-1:]:
            self.ended()
