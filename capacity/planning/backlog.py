"""How many workers a backlog of asynchronous work needs, where workers start slowly."""

from dataclasses import dataclass
from math import ceil, isfinite

from capacity.planning.errors import PlanningError

TARGET = 0.85
LEAST_HOLD_SECONDS = 300.0


@dataclass(frozen=True)
class QueueBacklog:
    """Work of one queue.

    rate: work that arrives, in workers (items a second x seconds of one item). waiting: work that waits, in
    worker-seconds. running, starting: workers. start_seconds: measured from order to first item.
    """

    rate: float
    waiting: float
    running: int
    starting: int
    start_seconds: float

    def __post_init__(self) -> None:
        for name in ("rate", "waiting", "running", "starting", "start_seconds"):
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise PlanningError(
                    name, f"{value} is not a figure of a queue: hold the workers until one arrives."
                )

    @property
    def unserved(self) -> float:
        """Work that still waits when a worker ordered now has started, in worker-seconds."""
        return max(0.0, self.waiting - (self.running + self.starting - self.rate) * self.start_seconds)


def workers_for(backlog: QueueBacklog) -> int:
    """Workers for what arrives, at 85 % of their time, and for what waits, within two start-up times."""
    if not backlog.rate and not backlog.waiting:
        return 0
    clearing = max(backlog.waiting, backlog.unserved) / (2 * max(backlog.start_seconds, 1.0))
    return max(1, ceil(backlog.rate / TARGET + clearing))


def hold_seconds(start_seconds: float) -> float:
    """Return the seconds for which a decrease waits below the highest recommendation."""
    return max(LEAST_HOLD_SECONDS, start_seconds)


@dataclass(frozen=True)
class DeadlineNeed:
    """Workers that finish in time, or the seconds by which the work will be late with all that there are."""

    workers: int
    late_seconds: float


def workers_by_deadline(
    work: float, seconds_left: float, start_seconds: float, running: int, most: int
) -> DeadlineNeed:
    """Return the fewest workers that end in time, or `most` and by how much they are late.

    work: worker-seconds that remain. running: workers that work already. most: workers that may be had.
    """
    if not (isfinite(work) and work >= 0):
        raise PlanningError("work", f"{work} is not an amount of worker-seconds.")
    if most < 1:
        raise PlanningError("most", "no worker may be had: raise the limit of the queue or of its team.")

    def end(workers: int) -> float:
        already = min(running, workers)
        before_others = already * start_seconds
        if work <= before_others and already:
            return work / already
        return start_seconds + (work - before_others) / workers

    low, high = 1, most
    if end(high) > seconds_left:
        return DeadlineNeed(most, end(high) - seconds_left)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if end(middle) <= seconds_left else (middle + 1, high)
    return DeadlineNeed(low if work else 0, 0.0)
