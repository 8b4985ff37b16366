"""Workloads as processes of this machine. Requests for checkpoints and answers are files of theirs.

A program finds the directory as `SLIPWAY_CHECKPOINT_DIR`. It writes what is in `requested` to `done` once its
checkpoint is written, and may write `done` at any time for checkpoints of its own.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from clusters.backends.workloads import ObservedWorkload, WorkloadSpec
from common import files
from common.jobs.runners.base import JobRunner
from common.jobs.spec import BY_CIRCUMSTANCE, JobSpec

REQUESTED, DONE = "requested", "done"
LONGEST_ANSWER = 200


class EmbeddedWorkloads:
    """A WorkloadRunner. `directory`: where each workload has one of its own, which outlives its runs."""

    def __init__(self, directory: Path, jobs: Callable[[], JobRunner]) -> None:
        self._directory = directory
        self._jobs = jobs

    def start(self, spec: WorkloadSpec) -> None:
        kept = self._directory / spec.name
        kept.mkdir(parents=True, exist_ok=True)
        (kept / REQUESTED).unlink(missing_ok=True)
        given = [f"SLIPWAY_CHECKPOINT_DIR={kept}"]
        if spec.visible:
            given.append(f"CUDA_VISIBLE_DEVICES={','.join(map(str, spec.visible))}")
        self._jobs().start(_job(spec.name, spec.run, ("env", *given, *spec.argv)))

    def ask_checkpoint(self, name: str, run: int, request: str) -> None:
        if self._jobs().observe(_job(name, run).name).is_live:
            files.replace(self._directory / name / REQUESTED, request.encode())

    def stop(self, name: str, run: int) -> None:
        self._jobs().stop(_job(name, run).name)

    def observe(self, name: str, run: int) -> ObservedWorkload:
        seen = self._jobs().observe(_job(name, run).name)
        done = self._directory / name / DONE
        answered, at = "", None
        with suppress(FileNotFoundError):
            answered = done.read_text("utf-8", "replace")[:LONGEST_ANSWER].strip()
            at = datetime.fromtimestamp(done.stat().st_mtime, UTC)
        return ObservedWorkload(
            state=seen.state,
            is_stopped=seen.ending in BY_CIRCUMSTANCE,
            why=f"{seen.why} {seen.last_words}".strip(),
            checkpoint_at=at,
            answered=answered,
            log_tail=seen.log_tail,
        )

    def blocked_by(self, name: str) -> str:
        return ""


def _job(name: str, run: int, argv: tuple[str, ...] = ()) -> JobSpec:
    return JobSpec(f"{name}/{run}", name, argv)
