"""An assignment of replicas to places, and what follows from it: rate, latency, loads and cost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf

from graphs.planning.model import (
    CARD_SHARE,
    CORE_SHARE,
    BatchTime,
    CardSlot,
    PlanMachine,
    PlanObjective,
    PlanRequest,
    ReplicaGroup,
    ResourceLoad,
    TaskNeed,
    TaskOption,
)

PlaceKey = tuple[str, str]
"""Machine and card; an empty card: the machine's cores."""


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """A task with one of its options and one batch size."""

    task: TaskNeed
    option: TaskOption
    batch: BatchTime

    @property
    def work(self) -> float:
        """Seconds of a replica for one item of the graph."""
        return self.task.visits * self.batch.seconds / self.batch.size

    @property
    def service(self) -> float:
        """Seconds of all batches of one item, and of the one that it meets under way."""
        return self.batch.seconds * (ceil(self.task.visits / self.batch.size) + 1)

    def fill(self, rate: float) -> float:
        """Mean seconds until a batch is full, at a rate of items of the graph."""
        if self.batch.size == 1:
            return 0.0
        full = (self.batch.size - 1) / (2 * self.task.visits * rate) if rate > 0 else inf
        return min(self.task.max_wait, full)


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Place for replicas: a card with its machine, or the cores of a machine."""

    machine: PlanMachine
    card: CardSlot | None = None

    @property
    def key(self) -> PlaceKey:
        return (self.machine.name, self.card.name if self.card else "")


def places_for(request: PlanRequest, option: TaskOption) -> list[ReplicaPlace]:
    if not option.card:
        return [ReplicaPlace(machine) for machine in request.machines]
    return [
        ReplicaPlace(machine, card)
        for machine in request.machines
        for card in machine.cards
        if card.kind == option.card
    ]


def choices_of(request: PlanRequest, task: TaskNeed) -> Iterator[TaskChoice]:
    """Options and batch sizes of a task, without sizes that another of the option beats in all respects."""
    by_latency = request.latency_limit < inf or request.objective is PlanObjective.LATENCY
    for option in task.options:
        found = [TaskChoice(task, option, time) for time in option.times]
        for one in found:
            if not any(_dominates(other, one, by_latency) for other in found):
                yield one


def _dominates(better: TaskChoice, worse: TaskChoice, by_latency: bool) -> bool:
    if better is worse:
        return False

    def costs(choice: TaskChoice) -> tuple[float, ...]:
        memory = (choice.batch.memory, choice.batch.card_memory)
        latency = (choice.service, choice.batch.size) if by_latency else ()
        return (choice.work, *memory, *latency)

    mine, its = costs(better), costs(worse)
    smaller = (better.batch.size, better.batch.seconds) < (worse.batch.size, worse.batch.seconds)
    return all(a <= b for a, b in zip(mine, its, strict=True)) and (mine != its or smaller)


@dataclass
class Assignment:
    """Choice of an option for each task, and of the number of its replicas in each place.

    `shares`: share of a task's items by place; empty: every replica has as many.
    """

    request: PlanRequest
    choices: Mapping[str, TaskChoice]
    counts: Mapping[str, Mapping[PlaceKey, int]]
    shares: Mapping[str, Mapping[PlaceKey, float]] = field(default_factory=dict)

    def replicas(self, task: str) -> int:
        return sum(self.counts[task].values())

    def capacity(self, task: str) -> float:
        work = self.choices[task].work
        if task not in self.shares:
            return CORE_SHARE * self.replicas(task) / work
        shares = self.shares[task]
        return min(_over(CORE_SHARE * count, work * shares[at]) for at, count in self.counts[task].items())

    def share(self, task: str, place: PlaceKey) -> float:
        """Share of the task's items that the place gets."""
        shares = self.shares.get(task)
        return shares[place] if shares else self.counts[task][place] / self.replicas(task)

    @cached_property
    def demands(self) -> dict[PlaceKey, list[float]]:
        """Return by place the bytes of memory and the seconds of use for one item of the graph.

        A machine stands under `(machine, "")`, with the bytes that it moves as well.
        """
        sums: dict[PlaceKey, list[float]] = {}
        for task, places in self.counts.items():
            choice = self.choices[task]
            for (machine, card), count in places.items():
                share = self.share(task, (machine, card))
                base = sums.setdefault((machine, ""), [0.0, 0.0, 0.0])
                base[0] += count * choice.batch.memory
                base[1] += share * choice.work * choice.option.cores
                base[2] += share * choice.task.visits * choice.task.item_bytes
                if card:
                    own = sums.setdefault((machine, card), [0.0, 0.0, 0.0])
                    own[0] += count * choice.batch.card_memory
                    own[1] += share * choice.work * choice.option.card_time
        return sums

    def limits(self) -> Iterator[tuple[PlaceKey, str, float]]:
        """Place, resource and the rate that it allows."""
        for machine in self.request.machines:
            _, cores, moved = self.demands.get((machine.name, ""), (0.0, 0.0, 0.0))
            yield (machine.name, ""), "cores", _over(CORE_SHARE * machine.cores, cores)
            yield (machine.name, ""), "bandwidth", _over(CORE_SHARE * machine.bandwidth, moved)
            for card in machine.cards:
                seconds = self.demands.get((machine.name, card.name), (0.0, 0.0))[1]
                yield (machine.name, card.name), "card time", _over(CARD_SHARE, seconds)

    @cached_property
    def most(self) -> float:
        """Items of the graph a second that replicas, cores, cards and bandwidth allow."""
        return min(
            min(self.capacity(task) for task in self.choices), min(limit for _, _, limit in self.limits())
        )

    @property
    def rate(self) -> float:
        """The rate that is planned for: the one asked for, or else as much as there is."""
        is_open = self.request.objective is PlanObjective.THROUGHPUT
        return self.most if is_open else min(self.most, self.request.rate)

    def fits(self) -> bool:
        """Whether memory suffices in all places."""
        for machine in self.request.machines:
            if self.demands.get((machine.name, ""), (0,))[0] > machine.memory:
                return False
            for card in machine.cards:
                if self.demands.get((machine.name, card.name), (0,))[0] > card.memory:
                    return False
        return True

    def task_latency(self, task: str) -> float:
        choice = self.choices[task]
        return choice.service + choice.fill(self.rate)

    @cached_property
    def latency(self) -> float:
        """Seconds on the longest path."""
        return longest_path(self.request, {task: self.task_latency(task) for task in self.choices})

    @cached_property
    def cost(self) -> float:
        """Price of the cores that are busy and of the cards that hold a replica."""
        cores = sum(choice.work * choice.option.cores for choice in self.choices.values()) * self.rate
        kinds = {(m.name, card.name): card.kind for m in self.request.machines for card in m.cards}
        used = {at for places in self.counts.values() for at, count in places.items() if count and at[1]}
        return cores * self.request.core_price + sum(self.request.price_of(kinds[place]) for place in used)

    def is_valid(self) -> bool:
        wanted = 0.0 if self.request.objective is PlanObjective.THROUGHPUT else self.request.rate
        return (
            all(self.replicas(task) >= 1 for task in self.choices)
            and self.fits()
            and self.most >= wanted * (1 - 1e-6)
            and self.latency <= self.request.latency_limit * (1 + 1e-6)
        )

    def score(self) -> tuple[float, float]:
        """The higher, the better: the objective, then fewer resources."""
        match self.request.objective:
            case PlanObjective.THROUGHPUT:
                return (self.rate, -self.cost)
            case PlanObjective.COST:
                return (-self.cost, self.most)
            case PlanObjective.LATENCY:
                return (-self.latency, -self.cost)

    def loads(self) -> tuple[ResourceLoad, ...]:
        """Every resource of every place at the plan's rate."""
        found: list[ResourceLoad] = []
        for machine in self.request.machines:
            memory, cores, moved = self.demands.get((machine.name, ""), (0.0, 0.0, 0.0))
            found.append(ResourceLoad(machine.name, "cores", cores * self.rate, machine.cores))
            found.append(ResourceLoad(machine.name, "memory", memory, machine.memory))
            if machine.bandwidth < inf:
                found.append(ResourceLoad(machine.name, "bandwidth", moved * self.rate, machine.bandwidth))
            for card in machine.cards:
                memory, seconds, _ = self.demands.get((machine.name, card.name), (0.0, 0.0, 0.0))
                place = f"{machine.name}/{card.name}"
                found.append(ResourceLoad(place, "card time", seconds * self.rate, 1.0))
                found.append(ResourceLoad(place, "card memory", memory, card.memory))
        return tuple(found)

    def groups(self, task: str) -> tuple[ReplicaGroup, ...]:
        placed = sorted(self.counts[task].items())
        return tuple(ReplicaGroup(*place, count) for place, count in placed if count)


def longest_path(request: PlanRequest, seconds: Mapping[str, float]) -> float:
    ends: dict[str, float] = {}
    before: dict[str, list[str]] = {}
    for source, target in request.edges:
        before.setdefault(target, []).append(source)
    for task in request.order():
        ends[task] = seconds[task] + max((ends[one] for one in before.get(task, ())), default=0.0)
    return max(ends.values())


def _over(limit: float, use: float) -> float:
    return limit / use if use > 0 else inf
