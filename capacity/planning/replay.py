"""A law over a recorded load: what it would have done, and what that would have cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite

from capacity.planning.errors import PlanningError
from capacity.planning.law import ObservedLoad, ScalingLaw, ScalingMemory, recommend

DAY = 86_400.0
LONGEST_STEP_SECONDS = 60.0
"""A longer gap in the record counts as this much."""
MEAN_SECONDS = 60.0
WAIT_LIMIT_SECONDS = 1.0


@dataclass(frozen=True)
class LoadPoint:
    """Load of a moment. at: seconds. load: work that arrives from then on, in workers."""

    at: float
    load: float


@dataclass(frozen=True)
class ReplayPoint:
    at: float
    load: float
    workers: int


@dataclass(frozen=True)
class Replay:
    """Result of a replay.

    `violations`: share of the work that waited over a second. `harvest`: share of all workers' time that was
    left. `moves`: workers started and ended a day.
    """

    violations: float
    harvest: float
    moves: float
    points: tuple[ReplayPoint, ...]


def checked(points: Sequence[LoadPoint]) -> None:
    """Raises PlanningError unless times rise and loads are figures of a load."""
    if len(points) < 2:
        raise PlanningError("points", "A replay needs two points of load or more.")
    for number, (before, after) in enumerate(pairwise(points), start=2):
        if not after.at > before.at:
            raise PlanningError("points", f"Time does not rise at point {number}: {after.at:g}.")
    for number, point in enumerate(points, start=1):
        if not (isfinite(point.at) and isfinite(point.load) and point.load >= 0):
            raise PlanningError("points", f"Point {number} is no load: {point.load}.")


def replay(
    law: ScalingLaw, points: Sequence[LoadPoint], *, switch_seconds: float, least: int, most: int
) -> Replay:
    """Run the law over the points, beginning with as many workers as the first load needs.

    Work flows: what no worker does waits. Workers come `switch_seconds` after they are ordered, and go at
    once. Raises PlanningError.
    """
    checked(points)
    serving = min(most, max(least, ceil(points[0].load / law.target)))
    coming: list[tuple[float, int]] = []
    memory = ScalingMemory()
    recent: list[LoadPoint] = []
    waiting = violated = offered = left = seconds = 0.0
    moves = 0
    shown: list[ReplayPoint] = []
    for point, after in pairwise(points):
        step = min(after.at - point.at, LONGEST_STEP_SECONDS)
        serving += sum(number for due, number in coming if due <= point.at)
        coming = [(due, number) for due, number in coming if due > point.at]
        work = waiting + point.load * step
        waiting = max(0.0, work - serving * step)
        offered += point.load * step
        if waiting > serving * WAIT_LIMIT_SECONDS:
            violated += point.load * step
        recent = [one for one in recent if one.at > point.at - MEAN_SECONDS] + [point]
        mean = sum(one.load for one in recent) / len(recent)
        have = serving + sum(number for _, number in coming)
        told = recommend(law, memory, ObservedLoad(point.at, point.load, mean, waiting), have)
        memory, wanted = told.memory, min(most, max(least, told.machines))
        if wanted > have:
            coming.append((point.at + step + switch_seconds, wanted - have))
        elif wanted < have:
            fewer = have - wanted
            while fewer and coming:
                due, number = coming.pop()
                if number > fewer:
                    coming.append((due, number - fewer))
                fewer -= min(fewer, number)
            serving -= fewer
        moves += abs(wanted - have)
        used = serving + sum(number for _, number in coming)
        left += (most - used) * step
        seconds += step
        shown.append(ReplayPoint(point.at, point.load, used))
    return Replay(
        violated / offered if offered else 0.0, left / (most * seconds), moves * DAY / seconds, tuple(shown)
    )
