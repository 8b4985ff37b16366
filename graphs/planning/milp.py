"""The plan as a mixed-integer program: rates, replicas and choices of all tasks at once."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import floor, inf

from graphs.planning.assignment import PlaceKey, TaskChoice, choices_of
from graphs.planning.model import CARD_SHARE, CORE_SHARE, MOST_REPLICAS, PlanObjective, PlanRequest, TaskNeed
from graphs.planning.solver import LinearProgram

TIE = 1e-6
"""Weight of a replica against the objective, so that none is planned without a use."""
GIB, MIB = 2.0**30, 2.0**20


@dataclass(frozen=True, slots=True)
class PlaceGroup:
    """Places that the program takes as one: cores and RAM of machines, or cards of one kind and size.

    memory: bytes of one card, or of all machines. host: name of the group of their machines.
    """

    name: str
    keys: frozenset[PlaceKey]
    count: int = 1
    memory: float = 0.0
    cores: float = 0.0
    bandwidth: float = inf
    kind: str = ""
    host: str = ""


@dataclass(slots=True)
class PlanProgram:
    """The program with the columns that a plan is read from."""

    lp: LinearProgram
    rate: int
    replicas: dict[tuple[TaskChoice, str], int] = field(default_factory=dict)
    chosen: dict[TaskChoice, int] = field(default_factory=dict)
    slacks: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    """By resource of a group: the column by which its limit is exceeded, the limit, the scale of both."""


def groups_by_kind(request: PlanRequest) -> list[PlaceGroup]:
    """All machines as one, and all cards of a kind and size as one."""
    machines = request.machines
    total = PlaceGroup(
        "machines",
        frozenset((machine.name, "") for machine in machines),
        memory=sum(machine.memory for machine in machines),
        cores=sum(machine.cores for machine in machines),
        bandwidth=sum(machine.bandwidth for machine in machines),
    )
    cards: dict[tuple[str, int], set[PlaceKey]] = {}
    for machine in machines:
        for card in machine.cards:
            cards.setdefault((card.kind, card.memory), set()).add((machine.name, card.name))
    groups = [total]
    for (kind, memory), keys in sorted(cards.items()):
        name = f"{kind}/{memory}"
        groups.append(PlaceGroup(name, frozenset(keys), len(keys), memory, kind=kind, host=total.name))
    return groups


def groups_by_place(request: PlanRequest) -> list[PlaceGroup]:
    """Every machine and every card by itself."""
    groups = []
    for machine in request.machines:
        key = frozenset([(machine.name, "")])
        groups.append(
            PlaceGroup(
                machine.name,
                key,
                memory=machine.memory,
                cores=machine.cores,
                bandwidth=machine.bandwidth,
            )
        )
        for card in machine.cards:
            name, key = f"{machine.name}/{card.name}", frozenset([(machine.name, card.name)])
            groups.append(PlaceGroup(name, key, memory=card.memory, kind=card.kind, host=machine.name))
    return groups


class ProgramBuilder:
    """Writes the program of a request.

    reference_rate: at which batches fill, items a second, at most the plan's own. only: choices among which
    it chooses. is_elastic: limits may be exceeded, as little as possible.
    """

    def __init__(
        self,
        request: PlanRequest,
        groups: list[PlaceGroup],
        *,
        reference_rate: float,
        only: Container[TaskChoice] | None = None,
        is_elastic: bool = False,
    ) -> None:
        self.request, self.groups, self.is_elastic = request, groups, is_elastic
        self.reference_rate, self.only = reference_rate, only
        self.aim = None if is_elastic else request.objective
        is_open = self.aim is PlanObjective.THROUGHPUT
        least = 0.0 if is_open else request.rate or 1e-6
        self.lp = LinearProgram()
        rate = self.lp.add(weight=1.0 if is_open else 0.0, low=least, high=inf if is_open else least)
        self.plan = PlanProgram(self.lp, rate)
        self.cores: dict[str, dict[int, float]] = {group.name: {} for group in groups}
        self.memory: dict[str, dict[int, float]] = {group.name: {} for group in groups}
        self.moved: dict[str, dict[int, float]] = {group.name: {} for group in groups}
        self.card_time: dict[str, dict[int, float]] = {group.name: {} for group in groups}

    def build(self) -> PlanProgram:
        for task in self.request.tasks:
            self._add_task(task)
        for group in self.groups:
            if group.kind:
                self._limit_cards(group)
            else:
                self._limit_machines(group)
        self._limit_latency()
        return self.plan

    def _add_task(self, task: TaskNeed) -> None:
        demand: dict[int, float] = {self.plan.rate: -task.visits}
        one_of: dict[int, float] = {}
        for choice in choices_of(self.request, task):
            is_late = self._latency(choice) > self.request.latency_limit and not self.is_elastic
            if is_late or (self.only is not None and choice not in self.only):
                continue
            chosen = self.plan.chosen[choice] = self.lp.add(high=1.0, is_whole=True)
            one_of[chosen] = 1.0
            standing: dict[int, float] = {chosen: -1.0}
            for group in self.groups:
                if group.kind == choice.option.card:
                    self._add_replicas(choice, group, demand, standing)
            self.lp.limit(standing, low=0.0)
        self.lp.limit(one_of or {self.plan.rate: 0.0}, low=1.0, high=1.0)
        self.lp.limit(demand, low=0.0, high=0.0)

    def _add_replicas(
        self, choice: TaskChoice, group: PlaceGroup, demand: dict[int, float], standing: dict[int, float]
    ) -> None:
        most = self._most_replicas(choice, group)
        if most < 1:
            return
        seconds = choice.batch.seconds / choice.batch.size
        flow = self.lp.add()
        count = self.lp.add(weight=0.0 if self.is_elastic else -TIE, high=most, is_whole=True)
        self.plan.replicas[choice, group.name] = count
        demand[flow] = standing[count] = 1.0
        self.lp.limit({flow: seconds, count: -CORE_SHARE}, high=0.0)
        self.lp.limit({count: 1.0, self.plan.chosen[choice]: -float(most)}, high=0.0)
        host = group.host or group.name
        self.cores[host][flow] = seconds * choice.option.cores
        self.moved[host][flow] = choice.task.item_bytes
        self.memory[host][count] = choice.batch.memory
        if group.kind:
            self.memory[group.name][count] = choice.batch.card_memory
            self.card_time[group.name][flow] = seconds * choice.option.card_time

    def _most_replicas(self, choice: TaskChoice, group: PlaceGroup) -> int:
        size = choice.batch.card_memory if group.kind else choice.batch.memory
        if self.is_elastic or not size:
            return MOST_REPLICAS
        return min(MOST_REPLICAS, floor(group.memory / size) * group.count)

    def _limit_machines(self, group: PlaceGroup) -> None:
        cores = self.cores[group.name]
        self._cap(cores, CORE_SHARE * group.cores, f"cores of {group.name}")
        self._cap(self.memory[group.name], group.memory, f"memory of {group.name}", GIB)
        if group.bandwidth < inf:
            limit = CORE_SHARE * group.bandwidth
            self._cap(self.moved[group.name], limit, f"bandwidth of {group.name}", MIB)
        if self.aim is PlanObjective.COST:
            for flow, seconds in cores.items():
                self.lp.weigh(flow, -seconds * self.request.core_price)

    def _limit_cards(self, group: PlaceGroup) -> None:
        time, memory = self.card_time[group.name], self.memory[group.name]
        if self.aim is PlanObjective.COST:
            used = self.lp.add(weight=-self.request.price_of(group.kind), high=group.count, is_whole=True)
            self.lp.limit({**time, used: -CARD_SHARE}, high=0.0)
            held = {column: size / GIB for column, size in memory.items()}
            self.lp.limit({**held, used: -group.memory / GIB}, high=0.0)
            return
        self._cap(time, CARD_SHARE * group.count, f"card time of {group.name}")
        self._cap(memory, group.memory * group.count, f"card memory of {group.name}", GIB)

    def _cap(self, terms: Mapping[int, float], limit: float, name: str, scale: float = 1.0) -> None:
        row = {column: value / scale for column, value in terms.items() if value}
        if self.is_elastic and row:
            slack = self.lp.add(weight=-1.0 / max(limit / scale, 1.0))
            self.plan.slacks[name] = (slack, limit, scale)
            row[slack] = -1.0
        self.lp.limit(row, high=limit / scale)

    def _latency(self, choice: TaskChoice) -> float:
        return choice.service + choice.fill(self.reference_rate)

    def _limit_latency(self) -> None:
        request, lp = self.request, self.lp
        is_aim = self.aim is PlanObjective.LATENCY
        if request.latency_limit == inf and not is_aim:
            return
        end = lp.add(weight=-1.0 if is_aim else 0.0, high=inf if self.is_elastic else request.latency_limit)
        if self.is_elastic:
            self._cap({end: 1.0}, request.latency_limit, "latency")
        finish = {task.name: lp.add() for task in request.tasks}
        for task in request.tasks:
            own = {
                column: -min(self._latency(choice), 1e6)
                for choice, column in self.plan.chosen.items()
                if choice.task is task
            }
            mine = finish[task.name]
            lp.limit({mine: 1.0, **own}, low=0.0)
            lp.limit({end: 1.0, mine: -1.0}, low=0.0)
            for source, target in request.edges:
                if target == task.name:
                    lp.limit({mine: 1.0, finish[source]: -1.0, **own}, low=0.0)
