"""Workloads in memory: each runs from its start until a test, or an order, ends it."""

from dataclasses import replace
from datetime import UTC, datetime

from clusters.backends.workloads import ObservedWorkload, WorkloadSpec
from common.jobs.spec import JobState

NONE = ObservedWorkload(state=JobState.GONE)


class FakeWorkloads:
    """A WorkloadRunner whose programs write a checkpoint at once when they are asked."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, int], ObservedWorkload] = {}
        self.blocked: dict[str, str] = {}
        """Disruption budgets by workload."""

    def start(self, spec: WorkloadSpec) -> None:
        self.runs.setdefault((spec.name, spec.run), ObservedWorkload(state=JobState.RUNNING))

    def ask_checkpoint(self, name: str, run: int, request: str) -> None:
        seen = self.observe(name, run)
        if seen.state is JobState.RUNNING:
            now = datetime.now(UTC)
            self.runs[name, run] = replace(seen, answered=request, checkpoint_at=now)

    def stop(self, name: str, run: int) -> None:
        seen = self.observe(name, run)
        if seen.state is JobState.RUNNING:
            self.runs[name, run] = replace(seen, state=JobState.FAILED, is_stopped=True)

    def observe(self, name: str, run: int) -> ObservedWorkload:
        return self.runs.get((name, run), NONE)

    def log(self, name: str, run: int, *, lines: int) -> str:
        return self.observe(name, run).log_tail

    def blocked_by(self, name: str) -> str:
        return self.blocked.get(name, "")
