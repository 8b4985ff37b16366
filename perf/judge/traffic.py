"""Simulated requests of a candidate and of the stable version, and when they first raise an alarm."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RAMP = np.linspace(0.05, 0.50, 60)
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class SimulatedTraffic:
    """Counts per run (rows) and look (columns)."""

    candidate: Ints
    candidate_bad: Ints
    stable: Ints
    stable_bad: Ints

    @property
    def shape(self) -> tuple[int, int]:
        return self.candidate.shape[0], self.candidate.shape[1]


def traffic(
    rng: np.random.Generator,
    *,
    runs: int,
    requests_per_second: float,
    candidate_share: Floats,
    candidate_bad: Floats | float,
    stable_bad: Floats | float,
    look_seconds: float = 60.0,
) -> SimulatedTraffic:
    """Poisson arrivals, dealt out at random; bad probabilities per look."""
    arrived = rng.poisson(requests_per_second * look_seconds, (runs, candidate_share.size))
    candidate = rng.binomial(arrived, candidate_share)
    stable = arrived - candidate
    return SimulatedTraffic(
        candidate, rng.binomial(candidate, candidate_bad), stable, rng.binomial(stable, stable_bad)
    )


def first_look(alarms: NDArray[np.bool_]) -> Ints:
    """The look, counted from 1, of each run's first alarm; NEVER without one."""
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1) + 1, NEVER)


def caught(looks: Ints) -> float:
    """Percentage of the runs that were rolled back."""
    return 100 * float(np.mean(looks < NEVER))
