"""Staged search: the prior's best first, then one parameter at a time from the best measured. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.rounds import NextRun, PastRun, next_round
from benchmarks.states import RunState

FIRST = 6
"""So many of the prior's best are tried at first; without a prior, spread over the space."""
FINALISTS = 3
AT_ONCE = 2
"""Neighbours of the best that one round looks at."""
SHORT = 0.5
"""Of the scenario's requests, in rounds that only look."""


@dataclass(frozen=True, slots=True)
class SearchCell:
    key: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Everything that tells it from others, engine and machine too."""
    prior: float | None = None


class NextLooks(Protocol):
    def __call__(
        self, cells: Sequence[SearchCell], looks: Sequence[PastRun], *, lower_is_better: bool = False
    ) -> list[int]:
        """Return cells to look at next; empty: enough was seen."""


def next_runs(
    cells: Sequence[SearchCell],
    past: Sequence[PastRun],
    *,
    repeats: int,
    lower_is_better: bool = False,
    look: "NextLooks | None" = None,
) -> list[NextRun]:
    """Return the runs of one round; empty when the finalists have their repeats.

    Rounds look with short runs, at the cells that `look` chooses; the best of them are then run in full,
    fresh, as often as a verdict needs.
    """
    looks = [one for one in past if one.fraction < 1]
    if len(looks) < len(past):
        return next_round(_finalists(cells, looks, lower_is_better), past, repeats)
    batch = (look or next_looks)(cells, looks, lower_is_better=lower_is_better)
    if batch:
        return [NextRun(key, SHORT) for key in batch]
    return next_round(_finalists(cells, looks, lower_is_better), past, repeats)


def next_looks(
    cells: Sequence[SearchCell], looks: Sequence[PastRun], *, lower_is_better: bool = False
) -> list[int]:
    """Cells to look at next, each once; empty: nothing better is near."""
    if not looks:
        return first_looks(cells)
    scores = scores_of(looks, lower_is_better)
    tried = {one.cell for one in looks}
    if not scores:
        # Nothing ran so far: go on down the prior.
        return [one.key for one in _by_prior(cells) if one.key not in tried][:FIRST]
    by_key = {one.key: one for one in cells}
    best = sorted(scores, key=lambda key: -scores[key])
    near = _neighbours(by_key[best[0]], cells, tried)
    if not near:
        # The best one's surroundings are known: look around the second, while that is close.
        near = [
            key
            for other in best[1:2]
            if scores[other] > scores[best[0]] - math.log(1.1)
            for key in _neighbours(by_key[other], cells, tried)
        ]
    return _worth(near, by_key, by_key[best[0]])[:AT_ONCE]


def first_looks(cells: Sequence[SearchCell]) -> list[int]:
    if any(one.prior for one in cells):
        return [one.key for one in _by_prior(cells)[:FIRST]]
    step = max(1, len(cells) // FIRST)
    return [one.key for one in cells[step // 2 :: step][:FIRST]]


def _by_prior(cells: Sequence[SearchCell]) -> list[SearchCell]:
    return sorted(cells, key=lambda one: -(one.prior or 0.0))


def _neighbours(cell: SearchCell, cells: Sequence[SearchCell], tried: set[int]) -> list[int]:
    """Untried cells that differ from it in one parameter."""
    found = []
    for other in cells:
        if other.key not in tried:
            differing = sum(other.parameters.get(name) != value for name, value in cell.parameters.items())
            if differing == 1:
                found.append(other.key)
    return found


def _worth(keys: Sequence[int], by_key: Mapping[int, SearchCell], best: SearchCell) -> list[int]:
    """Return the cells that the prior does not put far below the best one, its favourites first."""
    floor = (best.prior or 0.0) / 2
    worth = [key for key in dict.fromkeys(keys) if (by_key[key].prior or 0.0) >= floor]
    return sorted(worth, key=lambda key: -(by_key[key].prior or 0.0))


def scores_of(looks: Sequence[PastRun], lower_is_better: bool) -> dict[int, float]:
    sign = -1 if lower_is_better else 1
    return {
        one.cell: sign * math.log(one.value)
        for one in looks
        if one.state == RunState.VALID and one.value is not None and one.value > 0
    }


def _finalists(cells: Sequence[SearchCell], looks: Sequence[PastRun], lower_is_better: bool) -> list[int]:
    scores = scores_of(looks, lower_is_better)
    best = sorted(scores, key=lambda key: -scores[key])[:FINALISTS]
    order = [one.key for one in cells]
    return sorted(best, key=order.index)
