"""Search by optuna's tree-structured Parzen estimator: looks at the cells that it suggests. Pure but for the
package, which is an extra.

Bergstra et al., Algorithms for hyper-parameter optimization, 2011; https://optuna.readthedocs.io.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from benchmarks.rounds import PastRun
from benchmarks.search.staged import AT_ONCE, FIRST, SearchCell, first_looks, scores_of

MOST_LOOKS = 60
"""Then the finalists are run; fewer where the space is smaller."""
_ASKED_AT_MOST = 50
"""Suggestions that are constrained away or were looked at already, before the nearest cell is taken."""


def is_installed() -> bool:
    return find_spec("optuna") is not None


def next_looks(
    cells: Sequence[SearchCell], looks: Sequence[PastRun], *, lower_is_better: bool = False
) -> list[int]:
    """Return cells to look at next, each once; the same looks give the same cells. Empty: enough was seen."""
    if not looks:
        return first_looks(cells)
    tried = {one.cell for one in looks}
    left = [one for one in cells if one.key not in tried]
    room = min(AT_ONCE, MOST_LOOKS - len(tried), len(left))
    if room <= 0:
        return []
    return _suggested(cells, left, looks, room, lower_is_better)


def _suggested(
    cells: Sequence[SearchCell],
    left: Sequence[SearchCell],
    looks: Sequence[PastRun],
    count: int,
    lower_is_better: bool,
) -> list[int]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = _values(cells)
    distributions: dict[str, Any] = {
        name: optuna.distributions.CategoricalDistribution(sorted(some)) for name, some in values.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=len(looks), n_startup_trials=FIRST, multivariate=True, constant_liar=True
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    scores, by_key = scores_of(looks, lower_is_better), {one.key: one for one in cells}
    # A configuration that does not start is worse than the worst one that does.
    floor = min(scores.values(), default=0.0) - 1.0
    for key in dict.fromkeys(one.cell for one in looks):
        study.add_trial(
            optuna.trial.create_trial(
                params=_named(by_key[key], values),
                distributions=distributions,
                value=scores.get(key, floor),
            )
        )
    untried = {_key(_named(one, values)): one.key for one in left}
    found: list[int] = []
    for _ in range(_ASKED_AT_MOST):
        asked = study.ask(distributions).params
        if _key(asked) in untried:
            found.append(untried.pop(_key(asked)))
            if len(found) == count:
                return found
    nearest = sorted(
        untried.values(),
        key=lambda key: sum(asked[name] != said for name, said in _named(by_key[key], values).items()),
    )
    return [*found, *nearest[: count - len(found)]]


def _values(cells: Sequence[SearchCell]) -> dict[str, set[str]]:
    """Return the values of each parameter that differs, as JSON: optuna's categories are of one type."""
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    # One that an engine does not have is null there, as `_named` says it.
    found = {name: {json.dumps(cell.parameters.get(name)) for cell in cells} for name in names}
    return {name: values for name, values in found.items() if len(values) > 1}


def _named(cell: SearchCell, values: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(cell.parameters.get(name)) for name in values}


def _key(parameters: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(parameters.items()))
