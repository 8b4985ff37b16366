"""Facts of benchmarks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BenchmarkEnded:
    """A benchmark has finished, failed or was cancelled."""

    benchmark_id: int
    state: str


@dataclass(frozen=True, slots=True)
class BenchmarkBudgetSpent:
    """A benchmark starts no more runs, because a limit of its order or of its team is reached."""

    benchmark_id: int
