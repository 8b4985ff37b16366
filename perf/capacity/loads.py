"""The load that the laws of scaling meet: tides, bursts and spikes by seed, or bursts of a trace."""

import csv
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Loads = NDArray[np.float64]
DAY = 86_400


def tides(seed: int, days: int, machines: int = 120, trace: Path | None = None) -> Loads:
    """Three services' offered work, in machines: one row a second, one column a service.

    Tides are opposite, so that their sum leaves two fifths of the machines idle. Three spikes a day of 1.3 to
    2 times the load rise in two minutes and last five to fifteen.
    """
    random = np.random.default_rng(seed)
    seconds = days * DAY
    at = np.arange(seconds)
    columns = []
    for service, (peak, phase) in enumerate(((34.0, 0.0), (26.0, 0.5), (14.0, 0.25))):
        tide = peak * (0.55 + 0.45 * np.sin(2 * np.pi * (at / DAY + phase)))
        bursts = _recorded(trace, seconds, service, random) if trace else _bursts(random, seconds)
        spikes = np.ones(seconds)
        for start in random.integers(0, seconds - 1_200, 3 * days):
            length = int(random.integers(300, 900))
            ramp = np.minimum(1, np.minimum(np.arange(length), np.arange(length)[::-1]) / 120)
            height = random.uniform(0.3, 1.0)
            spikes[start : start + length] = np.maximum(spikes[start : start + length], 1 + height * ramp)
        columns.append(tide * bursts * spikes)
    work = np.stack(columns, axis=1)
    return np.minimum(work, 0.95 * machines)


def _bursts(random: np.random.Generator, seconds: int) -> Loads:
    """A mean of 1 with correlated noise of 8 % over a minute and of 10 % from second to second."""
    steps = random.standard_normal(seconds // 10 + 1)
    slow = np.empty_like(steps)
    value = 0.0
    for index, step in enumerate(steps):
        value = 0.85 * value + 0.527 * step
        slow[index] = value
    smooth = np.interp(np.arange(seconds), np.arange(len(slow)) * 10, slow)
    return np.maximum(0, np.exp(0.08 * smooth) * (1 + 0.10 * random.standard_normal(seconds)))


def _recorded(directory: Path, seconds: int, service: int, random: np.random.Generator) -> Loads:
    """The bursts of a trace with columns TIMESTAMP and GeneratedTokens, repeated from a seeded start."""
    path = sorted(directory.glob("*.csv"))[service % 2]
    work = np.zeros(3_600)
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    first = datetime.fromisoformat(rows[0]["TIMESTAMP"][:26])
    for row in rows:
        second = int((datetime.fromisoformat(row["TIMESTAMP"][:26]) - first).total_seconds())
        if second < len(work):
            work[second] += 200 + float(row["GeneratedTokens"])
    # A service on dozens of machines has more clients than the trace: 48 of it, begun at other times.
    shape = np.sum([np.roll(work, int(random.integers(len(work)))) for _ in range(48)], axis=0)
    return np.tile(shape / shape.mean(), seconds // len(shape) + 1)[:seconds]
