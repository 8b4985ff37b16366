"""The scheduler alone: whatever the graph, plan and order of events, items end as serially."""

import random
from typing import Any

import pytest

from serving.graphs.description import ValueSource
from serving.graphs.encoding import encode_output
from serving.graphs.errors import ItemFailed
from serving.graphs.item_state import (
    BrokenRef,
    ConstantRef,
    FlagRef,
    InputRef,
    ListRef,
    PackedRef,
    Ref,
    Unit,
)
from serving.graphs.paths import follow
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from serving.graphs.program import Graph, GraphValue
from serving.graphs.routes import Part, PartMode
from serving.graphs.scheduler import GraphScheduler, Happened, Lease
from serving.graphs.serial import SerialRun, call_alone, reason_of_failure
from tests.serving.graphs.random_graphs import build

GRAPHS = [100, pytest.param(1_000, marks=pytest.mark.slow)]
"""Random graphs that are run."""
MOST_STEPS = 20_000


class Box:
    """A packed value."""

    alive: set["Box"] = set()

    def __init__(self, value: Any) -> None:
        self.value = value
        self.alive.add(self)


class Simulation:
    """Processes that finish, or die, in a random order."""

    def __init__(self, graph: Graph, draw: random.Random, items: int) -> None:
        self.draw, self.graph = draw, graph
        plan = GraphPlan(
            tasks={
                one.name: TaskPlan(
                    replicas=draw.randint(1, 2),
                    max_size=draw.randint(1, one.max_size),
                    wait_ms=draw.choice([0, 2]),
                )
                for one in graph.description.tasks
            },
            entry=EntryLimits(items=draw.choice([1, 3, 6, 24])),
        )
        self.scheduler = GraphScheduler(graph.description, plan)
        self.runs = {one.name: one.make({}) for one in graph.loaded}
        self.nodes = {node.name: node for node in graph.nodes}
        self.waiting = [(number, draw.randrange(500)) for number in range(1, items + 1)]
        self.inputs = dict(self.waiting)
        self.idle = {name: one.replicas for name, one in plan.tasks.items()}
        self.busy: list[Lease] = []
        self.ended: dict[int, Any] = {}
        self.deaths = draw.choice([0.0, 0.0, 0.1])
        self.now = 0.0

    def run(self) -> None:
        for _ in range(MOST_STEPS):
            self.admit()
            self.lease()
            if not self.busy:
                if not self.scheduler.items and not self.waiting:
                    return
                due = min(self.due(task) for task in self.idle)
                assert due < float("inf"), "items are inside, and nothing can run"
                self.now += due + 1e-9
                continue
            lease = self.busy.pop(self.draw.randrange(len(self.busy)))
            self.idle[lease.task] += 1
            self.now += self.draw.random() / 1_000
            if self.draw.random() < self.deaths and all(unit.deaths < 2 for unit in lease.units):
                self.take(self.scheduler.lost(lease, "died", self.now))
            else:
                results = [self.result(lease.task, unit) for unit in lease.units]
                self.take(self.scheduler.complete(lease, results, self.now))
        raise AssertionError("it does not come to its end")

    def due(self, task: str) -> float:
        return self.scheduler.due_in(task, self.now, comes_more=bool(self.waiting))

    def admit(self) -> None:
        while self.waiting and self.scheduler.has_room(0):
            number, value = self.waiting.pop(0)
            inside = self.scheduler.admit(number, {"x": Box(value)}, now=self.now)
            self.take(inside[1])
        assert len(self.scheduler.items) <= self.scheduler.plan.entry.items

    def lease(self) -> None:
        for task in self.idle:
            while self.idle[task]:
                lease = self.scheduler.lease(task, self.now, comes_more=bool(self.waiting))
                if lease is None:
                    break
                assert len(lease.units) <= max(1, self.scheduler.plan.tasks[task].max_size)
                self.idle[task] -= 1
                self.busy.append(lease)
        for name, node in self.scheduler.routes.nodes.items():
            makers = [self.scheduler.routes.nodes[one] for one in self.scheduler.routes.waits_for[name]]
            if not makers or any(one.when or one.each for one in (node, *makers)):
                continue  # what is skipped, empty or derived costs nothing: the entry alone bounds it
            tasks = {node.task, *(one.task for one in makers)}
            plans = [self.scheduler.plan.tasks[task] for task in tasks]
            at_work = sum(one.replicas * one.max_size for one in plans)
            most = self.scheduler.queue_limit(name) + at_work
            assert self.scheduler._length(name) <= most, "a queue grows beyond its limit"

    def take(self, happened: Happened) -> None:
        for end in happened.ended:
            assert end.item.id not in self.ended
            outputs = {name: ref.packed.value for name, ref in end.item.outputs.items()}
            self.ended[end.item.id] = end.reason or outputs
        for box in happened.freed:
            Box.alive.remove(box)

    # What a process does

    def result(self, task: str, unit: Unit) -> Any:
        if unit.item.is_over:
            return "nobody asks"
        if unit.derived is not None:
            name, part = unit.derived
            value = self.value(unit.item.part(ValueSource(name=name, path=part.path), PartMode.VALUE))
            return {part: self.part(value, Part((), part.mode))}
        node = self.scheduler.routes.nodes[unit.node]
        given = []
        for number, source in self.scheduler.routes.values_of(node):
            if node.each and not number:
                given.append(self.value(unit.item.part(source, PartMode.ELEMENTS).elements[unit.element]))
            else:
                given.append(self.value(unit.item.part(source, PartMode.VALUE)))
        values = iter(given)
        arguments = tuple(
            next(values) if isinstance(one, GraphValue) else one for one in self.nodes[unit.node].arguments
        )
        is_class = self.nodes[unit.node].loaded.task.is_class
        try:
            value = call_alone(self.runs[task], arguments, is_class=is_class)
        except Exception as error:
            return reason_of_failure(task, error)
        return {part: self.part(value, part) for part in self.scheduler.routes.parts[unit.node]}

    def part(self, value: Any, part: Part) -> Ref:
        try:
            found = follow(value, part.path)
            if part.mode is PartMode.FLAG:
                return FlagRef(bool(found))
            if part.mode is PartMode.ELEMENTS:
                return ListRef(tuple(PackedRef(Box(one)) for one in found))
            return PackedRef(Box(encode_output(found) if part.mode is PartMode.OUTPUT else found))
        except Exception as error:
            return BrokenRef(f"{type(error).__name__}: {error}")

    def value(self, ref: Any) -> Any:
        if isinstance(ref, ListRef):
            return [self.value(one) for one in ref.elements]
        if isinstance(ref, ConstantRef):
            return follow(self.nodes[ref.node].condition[1], ref.path)
        packed = ref.packed
        assert packed in Box.alive, "a value is read after it was freed"
        return follow(packed.value, ref.path) if isinstance(ref, InputRef) else packed.value


@pytest.mark.parametrize("graphs", GRAPHS)
def test_every_item_ends_once_as_in_the_serial_run(tmp_path, graphs):
    failed = done = 0
    for seed in range(graphs):
        Box.alive.clear()
        draw = random.Random(seed)
        simulation = Simulation(build(seed), draw, items=draw.choice([1, 3, 6, 24]))
        simulation.run()

        serial = SerialRun(simulation.graph, tmp_path)
        assert simulation.ended.keys() == simulation.inputs.keys()
        for number, outcome in simulation.ended.items():
            try:
                wanted = {
                    name: encode_output(value)
                    for name, value in serial.run({"x": simulation.inputs[number]}).items()
                }
            except ItemFailed:
                assert isinstance(outcome, str), (seed, outcome)
                failed += 1
            else:
                assert outcome == wanted, seed
                done += 1
        assert not Box.alive, f"graph {seed} leaks values"
    assert failed > graphs // 20
    assert done > 2 * graphs
