"""Which configurations run next: whole rounds in the order A B B A, so that no drift favours one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.states import RunState

MOST_INVALID = 2
"""So many more tries a configuration gets for runs that were invalid."""


@dataclass(frozen=True, slots=True)
class PastRun:
    cell: int
    state: str
    value: float | None = None
    """The objective's, of a valid run."""
    fraction: float = 1.0


@dataclass(frozen=True, slots=True)
class NextRun:
    cell: int
    fraction: float = 1.0


def next_round(cells: Sequence[int], past: Sequence[PastRun], repeats: int) -> list[NextRun]:
    """Return one run of each cell that lacks some; none when all have their repeats or have failed."""
    whole = [one for one in past if one.fraction == 1.0]
    wanting = [cell for cell in cells if _lacks([one for one in whole if one.cell == cell], repeats)]
    done = max((sum(one.cell == cell for one in whole) for cell in cells), default=0)
    # Every other round backwards: A B, B A.
    return [NextRun(cell) for cell in (wanting if done % 2 == 0 else reversed(wanting))]


def _lacks(runs: Sequence[PastRun], repeats: int) -> bool:
    states = [one.state for one in runs]
    if RunState.FAILED in states or states.count(RunState.INVALID) > MOST_INVALID:
        return False
    return states.count(RunState.VALID) < repeats
