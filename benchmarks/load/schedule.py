"""When each request of a window is sent, and how long it is: the same seed gives the same schedule. Pure."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from benchmarks.load.scenario import LoadScenario, TokenLengths


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    number: int
    at: float
    """Seconds since the window began; of a closed loop 0: when its place is free."""
    input_tokens: int
    output_tokens: int
    seed: int
    """Of its prompt."""


def schedule(scenario: LoadScenario, rate: float, *, window: int = 0) -> list[PlannedRequest]:
    """The requests of a window, in order of their times. Windows of one run never share a prompt."""
    draw = random.Random(_mixed(scenario.seed, window, "lengths"))  # noqa: S311  (to be repeated)
    arrivals = random.Random(_mixed(scenario.seed, window, "arrivals"))  # noqa: S311  (to be repeated)
    times = list(_times(scenario, rate, arrivals))
    planned = []
    for number, at in enumerate(times):
        if scenario.arrivals == "trace":
            traced = scenario.trace[number]
            lengths = traced.input_tokens, traced.output_tokens
        else:
            lengths = _drawn(scenario.input, draw), _drawn(scenario.output, draw)
        planned.append(PlannedRequest(number, at, *lengths, _mixed(scenario.seed, window, str(number))))
    return planned


def window_seconds(scenario: LoadScenario, rate: float, planned: list[PlannedRequest]) -> float:
    """Return how long the window takes by its schedule; 0: as long as it takes."""
    if scenario.is_closed_loop:
        return scenario.seconds or 0.0
    return scenario.seconds or planned[-1].at + 1 / rate


def _times(scenario: LoadScenario, rate: float, draw: random.Random) -> Iterator[float]:
    count = scenario.count(rate)
    if scenario.is_closed_loop:
        yield from [0.0] * count
    elif scenario.arrivals == "constant":
        yield from (number / rate for number in range(count))
    elif scenario.arrivals == "trace":
        first, last = scenario.trace[0].at, scenario.trace[-1].at
        # Its gaps keep their proportions; its mean rate becomes that of the window.
        scale = (count - 1) / rate / (last - first) if last > first else 0.0
        yield from ((one.at - first) * scale for one in scenario.trace)
    else:
        # Gaps of mean 1/rate: gamma with the squared coefficient of variation `burstiness`, 1 for poisson.
        burstiness = scenario.burstiness if scenario.arrivals == "gamma" else 1.0
        at = 0.0
        for number in itertools.count():
            at += draw.gammavariate(1 / burstiness, burstiness / rate)
            if number == count if scenario.seconds is None else at >= scenario.seconds:
                return
            yield at


def _drawn(lengths: TokenLengths, draw: random.Random) -> int:
    if lengths.kind == "fixed":
        tokens = lengths.tokens
    elif lengths.kind == "lognormal":
        tokens = round(lengths.tokens * draw.lognormvariate(0, lengths.sigma))
    else:
        kinds, weights = zip(*lengths.bins, strict=True)
        tokens = draw.choices(kinds, weights)[0]
    return max(1, min(tokens, lengths.most))


def _mixed(seed: int, window: int, what: str) -> int:
    return int.from_bytes(sha256(f"{seed}:{window}:{what}".encode()).digest()[:7])
