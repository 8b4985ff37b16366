"""A row whose work a job does: begun, called off, tried again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import F

from common.jobs.rows import NEVER_LAUNCHED
from common.jobs.spec import JobObservation, JobSpec
from common.jobs.steps import AwaitJob, CollectJob, JobReconciler, StartJob, owner
from common.reconcile import Kernel, Step, StepOutcome, proceed
from tests.toys.models import Errand


class StartErrand(StartJob[Errand]):
    def spec(self, row: Errand, op_key: str) -> JobSpec:
        return JobSpec(op_key, owner(row), ("errand", str(row.attempt)))


class AwaitErrand(AwaitJob[Errand]):
    def underway(self, row: Errand, seen: JobObservation) -> Mapping[str, Any]:
        return {"answer": str(seen.progress)} if seen.progress else {}

    def succeeded(self, row: Errand, seen: JobObservation, now: datetime) -> StepOutcome:
        return proceed(save={"state": "done", "answer": str((seen.result or {})["answer"])})

    def failed(self, row: Errand, seen: JobObservation, now: datetime) -> StepOutcome:
        return proceed(save={"state": "failed", "answer": self.why_given_up(row, seen, "The errand")})


class ErrandReconciler(JobReconciler[Errand]):
    model = Errand

    def next_step(self, row: Errand, now: datetime) -> Step[Errand] | None:
        if row.state == "running":
            return AwaitErrand(self.runner) if row.job else StartErrand(self.runner)
        return CollectJob(self.runner) if row.job else None

    def lane_of(self, row: Errand) -> str:
        return self.runner.lane


def call_off(kernel: Kernel, errand: Errand) -> bool:
    return kernel.interrupt(errand, where={"state": "running"}, state="called off")


def again(kernel: Kernel, errand: Errand) -> bool:
    return kernel.interrupt(errand, state="running", answer="", attempt=F("attempt") + 1, **NEVER_LAUNCHED)
