"""Facts of optimised versions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptimizationEnded:
    """A run passed, was rejected, needs more items, failed or was cancelled."""

    optimization_id: int
    state: str
