"""Inputs and results of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from math import inf, isfinite

CORE_SHARE = 0.95
"""Share of its time for which a replica, a machine's cores and its bandwidth may be busy."""
CARD_SHARE = 0.9
MOST_REPLICAS = 64
"""Replicas of one option of a task in one place, or on all cards of a kind."""


def gettext_noop(sentence: str) -> str:
    """Mark a sentence for the catalogue of translations; the planner runs without Django."""
    return sentence


class GraphPlanningError(ValueError):
    """An input of which no plan can be made. field: its name. sentence: with places for `values`, so that it
    can be said in another language."""

    def __init__(self, field: str, sentence: str, **values: object) -> None:
        super().__init__(f"{field}: {sentence % values}")
        self.field, self.sentence, self.values = field, sentence, values


class PlanObjective(StrEnum):
    THROUGHPUT = "throughput"
    COST = "cost"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class BatchTime:
    """Mean time of one batch, and the bytes that a replica holds at its peak in RAM and on its card."""

    size: int
    seconds: float
    memory: int = 0
    card_memory: int = 0


@dataclass(frozen=True, slots=True)
class TaskOption:
    """A way of running a task."""

    name: str
    times: tuple[BatchTime, ...]
    cores: float = 1.0
    """Cores busy while a batch runs."""
    card: str = ""
    """Kind of card; empty: it needs none."""
    card_time: float = 1.0
    """Share of the card's time that is taken while a batch runs."""


@dataclass(frozen=True, slots=True)
class TaskNeed:
    """A task of the graph as profiles know it."""

    name: str
    options: tuple[TaskOption, ...]
    visits: float = 1.0
    """Items of this task for one item of the graph."""
    item_bytes: float = 0.0
    """Bytes that go in and out for one item of the task."""
    max_wait: float = inf
    """Seconds for which a batch waits at most to be filled."""


@dataclass(frozen=True, slots=True)
class CardSlot:
    """A card of a machine."""

    name: str
    kind: str
    memory: int


@dataclass(frozen=True, slots=True)
class PlanMachine:
    """Machine with its cards. `bandwidth`: bytes a second between tasks."""

    name: str
    cores: float
    memory: int
    cards: tuple[CardSlot, ...] = ()
    bandwidth: float = inf


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Wish for a plan. rate: items a second that must be reached (cost, latency), or none for throughput."""

    tasks: tuple[TaskNeed, ...]
    edges: tuple[tuple[str, str], ...]
    machines: tuple[PlanMachine, ...]
    objective: PlanObjective = PlanObjective.THROUGHPUT
    rate: float = 0.0
    latency_limit: float = inf
    core_price: float = 1.0
    card_prices: Mapping[str, float] = field(default_factory=dict)
    """Price of a card by kind, 20 where none is said."""

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        if not names:
            raise GraphPlanningError("tasks", gettext_noop("The graph has no task."))
        if len(set(names)) < len(names):
            raise GraphPlanningError("tasks", gettext_noop("Two tasks have the same name."))
        if unknown := {end for edge in self.edges for end in edge} - set(names):
            raise GraphPlanningError(
                "edges", gettext_noop("No task is called %(names)s."), names=", ".join(sorted(unknown))
            )
        if not self.machines:
            raise GraphPlanningError(
                "machines", gettext_noop("There is no machine to plan on: name one at least.")
            )
        if self.objective is not PlanObjective.THROUGHPUT and not (isfinite(self.rate) and self.rate > 0):
            raise GraphPlanningError(
                "rate", gettext_noop("Say how many items a second this objective is to be planned with.")
            )
        for task in self.tasks:
            _check_task(task)
        try:
            self.order()
        except CycleError as cycle:
            raise GraphPlanningError(
                "edges", gettext_noop("The tasks %(names)s form a cycle."), names=" -> ".join(cycle.args[1])
            ) from None

    def order(self) -> tuple[str, ...]:
        """Names of the tasks, each after those that it depends on."""
        sorter = TopologicalSorter({task.name: set[str]() for task in self.tasks})
        for source, target in self.edges:
            sorter.add(target, source)
        return tuple(sorter.static_order())

    def price_of(self, card: str) -> float:
        return self.card_prices.get(card, 20.0)


def _check_task(task: TaskNeed) -> None:
    if not (isfinite(task.visits) and task.visits > 0):
        raise GraphPlanningError(
            "visits",
            gettext_noop("%(task)s is called %(visits)s times for each item: that is no count."),
            task=task.name,
            visits=task.visits,
        )
    if not any(option.times for option in task.options):
        raise GraphPlanningError(
            "options",
            gettext_noop("%(task)s has no profile on such a machine: profile it first."),
            task=task.name,
        )
    for option in task.options:
        for time in option.times:
            if not (isfinite(time.seconds) and time.seconds > 0 and time.size >= 1):
                raise GraphPlanningError(
                    "times",
                    gettext_noop("%(task)s by %(option)s: %(seconds)s s for %(size)s is no time of a batch."),
                    task=task.name,
                    option=option.name,
                    seconds=time.seconds,
                    size=time.size,
                )


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Replicas of one task in one place. card: its name; empty: on the machine's cores alone."""

    machine: str
    card: str
    count: int


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """Replicas, batch and device of one task.

    wait: seconds for which a batch waits at most to be filled. capacity: items of the graph a second that
    its replicas could do by themselves. latency: seconds that it adds to a path. busy: share of the time of
    its replicas.
    """

    task: str
    option: str
    batch: int
    wait: float
    places: tuple[ReplicaGroup, ...]
    capacity: float
    latency: float
    busy: float

    @property
    def replicas(self) -> int:
        return sum(place.count for place in self.places)


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """A plan within all limits.

    rate: items a second that it is made for. most: that it could do. cost: of the cores that are busy and the
    cards that hold a replica. bound: no plan is better, in the unit of the objective. gap: share by which the
    bound is better than this plan. None: nothing was proven.
    """

    tasks: tuple[PlannedTask, ...]
    objective: PlanObjective
    rate: float
    most: float
    latency: float
    cost: float
    method: str
    bound: float | None
    gap: float | None
    loads: tuple["ResourceLoad", ...]

    def of(self, task: str) -> PlannedTask:
        return next(one for one in self.tasks if one.task == task)


@dataclass(frozen=True, slots=True)
class ResourceLoad:
    """Use of one resource of one place: `cores`, `memory`, `bandwidth`, `card time` or `card memory`."""

    place: str
    resource: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else (0.0 if self.used == 0 else inf)


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """Resource that is short for any plan. `needed` and `available` are in the resource's unit."""

    resource: str
    needed: float
    available: float

    @property
    def missing(self) -> float:
        return self.needed - self.available
