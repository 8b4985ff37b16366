"""A prior corrected by what was measured of like configurations. Pure.

A roofline is off by some tens of percent, and by much the same for configurations that are alike: what was
measured of them over what it said of them is a factor for it here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DECAY = 0.5
"""Weight of a measured configuration, for each parameter in which it differs."""
DOUBT = 0.5
"""Weight of the roofline as it is."""
LIKE_WITHIN = 2.0
"""Models are alike whose weights are at most so many times each other's."""


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    parameters: Mapping[str, Any]
    """With the engine and the machine."""
    measured: float
    prior: float
    """By the roofline, for the load that it was measured with."""


def are_alike(weights_bytes: float, others_bytes: float) -> bool:
    return 1 / LIKE_WITHIN <= weights_bytes / others_bytes <= LIKE_WITHIN


def corrected(prior: float, parameters: Mapping[str, Any], measured: Sequence[MeasuredCell]) -> float:
    """Return the prior times the weighted geometric mean of what was measured over what was foretold."""
    total, weights = 0.0, DOUBT
    for one in measured:
        if one.measured > 0 and one.prior > 0:
            names = parameters.keys() | one.parameters.keys()
            differing = sum(parameters.get(name) != one.parameters.get(name) for name in names)
            weight = DECAY**differing
            weights += weight
            total += weight * math.log(one.measured / one.prior)
    return prior * math.exp(total / weights)
