"""How many workers a backlog of asynchronous work needs, where workers start slowly."""

from dataclasses import dataclass, field, replace
from math import ceil, exp, isfinite

from capacity.planning.errors import PlanningError
from capacity.planning.learning import learned

TARGET = 6 / 7
"""Of a worker's time (`python -m perf.capacity backlog`)."""
LEAST_HOLD_SECONDS = 300.0
RATE_SECONDS = 60.0
"""Over which the arrivals are averaged."""
LONGEST_GAP_SECONDS = 120.0
"""After a longer silence of the queue its figures are no difference of two looks."""


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
    """Workers for what arrives, at 86 % of their time, and for what waits, within two start-up times."""
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


@dataclass(frozen=True)
class QueueMemory:
    """Kept between two looks at a queue.

    at: of the last look, 0: there was none. waiting, in_hand, arrived: its figures. item_seconds: that one
    item keeps a worker, measured while work waited; 0: not measured. rate: work that arrives, in workers.
    highest: (seconds, workers), falling, of the recommendations within the hold.
    """

    at: float = 0.0
    waiting: float = 0.0
    in_hand: float = 0.0
    arrived: float | None = None
    item_seconds: float = 0.0
    rate: float = 0.0
    highest: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class QueueState:
    """A queue and the workers that work it off, at one moment. most: workers that may be had."""

    at: float
    waiting: float
    in_hand: float
    arrived: float | None
    ready: int
    starting: int
    start_seconds: float
    most: int
    declared_item_seconds: float | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        for name in ("at", "waiting", "in_hand"):
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise PlanningError(name, f"{value} is not a figure of a queue.")


@dataclass(frozen=True)
class QueueDecision:
    """Size for a backlog, in workers. late_seconds: by which the deadline is missed with all workers
    that may be had; 0: it is not. why: a code."""

    workers: int
    rate: float
    item_seconds: float
    late_seconds: float
    why: str
    memory: QueueMemory = field(repr=False)


def recommend_for_queue(memory: QueueMemory, state: QueueState) -> QueueDecision:
    """Say how many workers a queue should have: up at once, down to the highest of the hold.

    With a deadline the fewest that end in time, with what will have arrived by then.
    """
    if state.at <= memory.at or state.at - memory.at > LONGEST_GAP_SECONDS:
        memory = QueueMemory(at=0.0, item_seconds=memory.item_seconds, rate=memory.rate)
    memory = _measured(memory, state)
    seconds = state.declared_item_seconds or memory.item_seconds or 1.0
    work = (state.waiting + state.in_hand) * seconds
    late, why = 0.0, "queue_drains"
    left = None if state.deadline is None else state.deadline - state.at
    if left is not None and left > 0 and work:
        coming = work + memory.rate * left
        need = workers_by_deadline(
            coming / TARGET, left, state.start_seconds, state.ready, max(1, state.most)
        )
        wanted, late, why = need.workers, need.late_seconds, "deadline"
    else:
        backlog = QueueBacklog(
            memory.rate, state.waiting * seconds, state.ready, state.starting, state.start_seconds
        )
        wanted = workers_for(backlog)
        if left is not None and work:
            late = work / max(1, state.most) - left
    hold = hold_seconds(state.start_seconds)
    kept = [(at, past) for at, past in memory.highest if at > state.at - hold and past > wanted]
    highest = (*kept, (state.at, wanted))
    if kept and why == "queue_drains":
        why = "queue_holds"
    return QueueDecision(
        int(highest[0][1]), memory.rate, seconds, late, why, replace(memory, highest=highest)
    )


def _measured(memory: QueueMemory, state: QueueState) -> QueueMemory:
    """Learn from two looks what one item takes and how much arrives.

    An item's time is measured while items wait, when every worker has one. A source that does not count
    arrivals shows them by the growth of what waits; while nothing waits there, its last rate fades.
    """
    after = replace(memory, at=state.at, waiting=state.waiting, in_hand=state.in_hand, arrived=state.arrived)
    if not memory.at:
        return after
    passed = state.at - memory.at
    growth = state.waiting + state.in_hand - memory.waiting - memory.in_hand
    is_full = bool(memory.waiting and state.waiting and state.ready)
    came = None
    if state.arrived is not None and memory.arrived is not None and state.arrived >= memory.arrived:
        came = state.arrived - memory.arrived
        if is_full and (ended := came - growth) > 0:
            took = state.ready * passed / ended
            after = replace(after, item_seconds=learned(memory.item_seconds or None, took))
    seconds = state.declared_item_seconds or after.item_seconds or 1.0
    share = 1 - exp(-passed / RATE_SECONDS)
    if came is not None:
        rate = memory.rate + share * (came * seconds / passed - memory.rate)
    elif is_full or growth > 0:
        worked = state.ready if is_full else min(memory.rate, state.ready)
        rate = memory.rate + share * (max(0.0, growth * seconds / passed + worked) - memory.rate)
    else:
        rate = memory.rate * exp(-passed / hold_seconds(state.start_seconds))
    return replace(after, rate=rate if rate > 1e-3 else 0.0)
