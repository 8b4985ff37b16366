"""Workloads as processes of this machine. Requests for checkpoints and answers are files of theirs.

A program finds the directory as `SLIPWAY_CHECKPOINT_DIR`. It writes what is in `requested` to `done` once its
checkpoint is written, and may write `done` at any time for checkpoints of its own. One over several declared
machines is a process for each, which end together; those after the first have directories within the first's.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from clusters.backends.workloads import ObservedWorkload, WorkloadSpec
from common import files
from common.jobs.runners.base import JobRunner
from common.jobs.spec import BY_CIRCUMSTANCE, JobObservation, JobSpec, JobState

REQUESTED, DONE, MACHINES = "requested", "done", "machines"
LONGEST_ANSWER = 200
LEADER = "127.0.0.1"


class EmbeddedWorkloads:
    """A WorkloadRunner. `directory`: where each workload has one of its own, which outlives its runs."""

    def __init__(self, directory: Path, jobs: Callable[[], JobRunner]) -> None:
        self._directory = directory
        self._jobs = jobs

    def start(self, spec: WorkloadSpec) -> None:
        (self._directory / spec.name).mkdir(parents=True, exist_ok=True)
        files.replace(self._directory / spec.name / MACHINES, str(len(spec.places)).encode())
        for rank, (_machine, visible) in enumerate(spec.places):
            kept = self._kept(spec.name, rank)
            kept.mkdir(exist_ok=True)
            (kept / REQUESTED).unlink(missing_ok=True)
            given = [f"SLIPWAY_CHECKPOINT_DIR={kept}"]
            if visible:
                given.append(f"CUDA_VISIBLE_DEVICES={','.join(map(str, visible))}")
            if spec.rest:
                given += [
                    f"SLIPWAY_RANK={rank}", f"SLIPWAY_MACHINES={len(spec.places)}", f"SLIPWAY_LEADER={LEADER}"
                ]  # fmt: skip
            self._jobs().start(_job(spec.name, spec.run, rank, ("env", *given, *spec.argv)))

    def ask_checkpoint(self, name: str, run: int, request: str) -> None:
        for rank in self._ranks(name):
            if self._jobs().observe(_job(name, run, rank).name).is_live:
                files.replace(self._kept(name, rank) / REQUESTED, request.encode())

    def stop(self, name: str, run: int) -> None:
        for rank in self._ranks(name):
            self._jobs().stop(_job(name, run, rank).name)

    def observe(self, name: str, run: int) -> ObservedWorkload:
        parts = [self._jobs().observe(_job(name, run, rank).name) for rank in self._ranks(name)]
        if any(part.state is JobState.FAILED for part in parts) and any(part.is_live for part in parts):
            self.stop(name, run)
        seen = _worst(parts)
        answers = [self._answer(name, rank) for rank in self._ranks(name)]
        times = [at for _text, at in answers if at is not None]
        are_all = len(times) == len(answers)
        return ObservedWorkload(
            state=_state_of(parts),
            is_stopped=seen.ending in BY_CIRCUMSTANCE,
            why=f"{seen.why} {seen.last_words}".strip(),
            checkpoint_at=min(times) if are_all else None,
            answered=answers[0][0] if are_all and len({text for text, _at in answers}) == 1 else "",
            log_tail=seen.log_tail,
        )

    def log(self, name: str, run: int, *, lines: int) -> str:
        return self._jobs().log(_job(name, run).name, lines=lines)

    def blocked_by(self, name: str) -> str:
        return ""

    def _ranks(self, name: str) -> range:
        with suppress(FileNotFoundError):
            return range(int((self._directory / name / MACHINES).read_text()))
        return range(1)

    def _kept(self, name: str, rank: int) -> Path:
        return self._directory / name / f"rank-{rank}" if rank else self._directory / name

    def _answer(self, name: str, rank: int) -> tuple[str, datetime | None]:
        done = self._kept(name, rank) / DONE
        with suppress(FileNotFoundError):
            text = done.read_text("utf-8", "replace")[:LONGEST_ANSWER].strip()
            return text, datetime.fromtimestamp(done.stat().st_mtime, UTC)
        return "", None


def _state_of(parts: Sequence[JobObservation]) -> JobState:
    """Return the state of all parts together: one ends once none of them lives."""
    states = {part.state for part in parts}
    if len(states) == 1:
        return states.pop()
    if any(part.is_live for part in parts):
        return JobState.WAITING if JobState.GONE in states else JobState.RUNNING
    return JobState.FAILED if JobState.FAILED in states else JobState.WAITING


def _worst(parts: Sequence[JobObservation]) -> JobObservation:
    """Return the part that failed by itself, or one that was ended, or else the first."""
    failed = [part for part in parts if part.state is JobState.FAILED]
    by_itself = [part for part in failed if part.ending not in BY_CIRCUMSTANCE]
    return (by_itself or failed or list(parts))[0]


def _job(name: str, run: int, rank: int = 0, argv: tuple[str, ...] = ()) -> JobSpec:
    return JobSpec(f"{name}/{run}/{rank}" if rank else f"{name}/{run}", name, argv)
