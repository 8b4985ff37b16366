"""Which call runs next, and with which others: queues per node, batches per task. Pure: times are given.

What is inside is bounded at the entry; within, a node's calls wait while a follower's queue is full. The last
node with a queue is never held back, and a task that several nodes call serves the last of them first, so
nothing can come to a stand. Every unit is leased: the lease of a process that died goes back into its queue.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.graphs.description import GraphDescription, ValueSource
from serving.graphs.item_state import (
    RAW,
    BrokenRef,
    FlagRef,
    ItemState,
    ListRef,
    PackedRef,
    Ref,
    Unit,
    packed_in,
)
from serving.graphs.plan import GraphPlan
from serving.graphs.routes import GraphRoutes, Part, PartMode

MOST_DEATHS = 3
"""Processes that ended while they worked on an item, after which it has failed."""
ONLINE, OFFLINE = 0, 1
DERIVE = ""
"""Queue of parts that no result brought along; every task's processes serve it."""


@dataclass(eq=False)
class Lease:
    """Units that one process works on together."""

    task: str
    units: list[Unit]
    began: float


@dataclass(frozen=True)
class ItemEnd:
    """An item is over: with its outputs, or with the reason that it failed for."""

    item: ItemState
    reason: str = ""
    is_cancelled: bool = False


@dataclass
class Happened:
    """Results of a step: items that are over, and packed values that nobody needs any more."""

    ended: list[ItemEnd] = field(default_factory=list)
    freed: list[Any] = field(default_factory=list)


UnitResult = dict[Part, Ref] | str
"""Parts of a unit's result by what they are; text: the reason that it failed for."""


class GraphScheduler:
    def __init__(self, graph: GraphDescription, plan: GraphPlan) -> None:
        self.routes = GraphRoutes(graph)
        self.items: dict[int, ItemState] = {}
        self.retried: dict[str, int] = defaultdict(int)
        self._queues: dict[str, tuple[deque[Unit], deque[Unit]]] = {
            name: (deque(), deque()) for name in (*self.routes.nodes, DERIVE)
        }
        self._to_come: dict[str, int] = dict.fromkeys(self.routes.nodes, 0)
        """Items inside whose call of the node is not ready yet."""
        self._nodes_of = {
            task.name: [node.name for node in reversed(graph.nodes) if node.task == task.name]
            for task in graph.tasks
        }
        self.plan = plan

    # What comes in

    def has_room(self, memory_bytes: int) -> bool:
        """Whether another item may come in. `memory_bytes`: of values that are inside."""
        limits = self.plan.entry
        return not self.items or (len(self.items) < limits.items and memory_bytes < limits.bytes)

    def admit(
        self, item: int, inputs: Mapping[str, Any], *, now: float, priority: int = ONLINE
    ) -> tuple[ItemState, Happened]:
        """`inputs`: packed bytes by name."""
        state = ItemState(item, self.routes, priority, now)
        for name, packed in inputs.items():
            state.keep(name, -1, {RAW: PackedRef(packed)})
        self.items[item] = state
        for name in self._to_come:
            self._to_come[name] += 1
        happened = Happened()
        for name in [name for name, waits in state.left.items() if not waits]:
            self._begin(state, name, now, happened)
            if state.is_over:
                break
        else:
            self._take_outputs(state, now, happened)
        return state, happened

    # What runs

    def queued(self, task: str) -> int:
        return sum(self._length(node) for node in self._nodes_of[task])

    def _length(self, node: str) -> int:
        return len(self._queues[node][ONLINE]) + len(self._queues[node][OFFLINE])

    def queue_limit(self, node: str) -> int:
        """Calls that wait for a node before those that feed it are held back."""
        plan = self.plan.tasks[self.routes.nodes[node].task]
        return max(2, 2 * plan.replicas * plan.max_size)

    def _is_held_back(self, node: str) -> bool:
        return any(self._length(one) >= self.queue_limit(one) for one in self.routes.followers[node])

    def lease(self, task: str, now: float, *, comes_more: bool = False) -> Lease | None:
        """The next batch for a process of the task that is free, if one is due. `comes_more`: items wait
        outside."""
        if derived := self._next_alone(DERIVE):
            return Lease(task, [derived], now)
        ready = [name for name in self._nodes_of[task] if self._length(name) and not self._is_held_back(name)]
        if not ready:
            return None
        for name in ready:
            if (head := self._head(name)) is not None and head.is_alone:
                return Lease(task, [self._pop(name)], now)
        if self.due_in(task, now, comes_more=comes_more) > 0:
            return None
        limit = self.plan.tasks[task].max_size
        units: list[Unit] = []
        for priority in (ONLINE, OFFLINE):
            for name in ready:
                queue = self._queues[name][priority]
                while queue and len(units) < limit and not queue[0].is_alone:
                    units.append(queue.popleft())
        return Lease(task, units, now)

    def due_in(self, task: str, now: float, *, comes_more: bool) -> float:
        """Seconds until the task's next batch is due; infinite: nothing waits."""
        waiting = [
            name for name in self._nodes_of[task] if self._length(name) and not self._is_held_back(name)
        ]
        if not waiting:
            return float("inf")
        plan = self.plan.tasks[task]
        may_grow = comes_more or any(self._to_come[name] for name in self._nodes_of[task])
        if not may_grow or sum(self._length(name) for name in waiting) >= plan.max_size:
            return 0.0
        oldest = min(queue[0].queued for name in waiting for queue in self._queues[name] if queue)
        return max(0.0, oldest + plan.wait_ms / 1_000 - now)

    def _head(self, node: str) -> Unit | None:
        return next((queue[0] for queue in self._queues[node] if queue), None)

    def _pop(self, node: str) -> Unit:
        return next(queue for queue in self._queues[node] if queue).popleft()

    def _next_alone(self, node: str) -> Unit | None:
        return self._pop(node) if self._head(node) is not None else None

    # What comes back

    def complete(self, lease: Lease, results: Sequence[UnitResult], now: float) -> Happened:
        """The process has answered: one result per unit."""
        happened = Happened()
        for unit, result in zip(lease.units, results, strict=True):
            if unit.item.is_over:
                if not isinstance(result, str):
                    happened.freed += [one for ref in result.values() for one in packed_in(ref)]
            elif isinstance(result, str):
                self._failed(lease.task, unit, result, now, happened)
            else:
                self._succeeded(unit, result, now, happened)
        return happened

    def lost(self, lease: Lease, reason: str, now: float) -> Happened:
        """The process died: its units are tried again alone, those that ended several have failed."""
        happened = Happened()
        for unit in lease.units:
            unit.deaths += 1
            if unit.item.is_over:
                continue
            if unit.deaths >= MOST_DEATHS:
                words = f"{lease.task}: its process {reason}, {unit.deaths} times"
                self._end(unit.item, happened, words)
            else:
                self._put_back(lease.task, unit, now)
        return happened

    def end(self, item: int, reason: str, *, is_cancelled: bool = False) -> Happened:
        """Cancels an item, or fails it from outside."""
        happened = Happened()
        if (state := self.items.get(item)) is not None:
            self._end(state, happened, reason, is_cancelled=is_cancelled)
        return happened

    def _put_back(self, task: str, unit: Unit, now: float) -> None:
        self.retried[task] += 1
        unit.queued = now
        self._queues[DERIVE if unit.derived else unit.node][unit.item.priority].appendleft(unit)

    def _failed(self, task: str, unit: Unit, reason: str, now: float, happened: Happened) -> None:
        unit.attempt += 1
        if unit.derived is None and unit.attempt <= self.routes.graph.task(task).retries:
            self._put_back(task, unit, now)
        else:
            self._end(unit.item, happened, reason)

    def _succeeded(self, unit: Unit, parts: dict[Part, Ref], now: float, happened: Happened) -> None:
        item = unit.item
        if unit.derived is not None:
            name, part = unit.derived
            item.keep(name, -1, parts)
            for asker in item.asked.pop(unit.derived):
                if item.is_over:
                    return
                if asker.startswith("="):
                    self._take_output(item, asker[1:], parts[part], happened)
                else:
                    self._begin(item, asker, now, happened)
            return
        item.keep(unit.node, unit.element, parts)
        if unit.element >= 0:
            item.missing[unit.node] -= 1
            if item.missing[unit.node]:
                return
        self._over(item, unit.node, now, happened)

    # One item

    def _begin(self, item: ItemState, name: str, now: float, happened: Happened) -> None:
        """All that the node waits for is there: its calls are queued, unless a part must be derived first."""
        node = self.routes.nodes[name]
        if node.when is not None:
            flag = self._part_or_ask(item, name, node.when, PartMode.FLAG, now)
            if flag is None:
                return
            if isinstance(flag, BrokenRef):
                self._end(item, happened, f"{node.task}: {flag.reason}")
                return
            if flag == FlagRef(False):
                self._ready(item, name)
                item.skipped.add(name)
                self._over(item, name, now, happened)
                return
        elements = -1
        for number, source in self.routes.values_of(node):
            is_split = node.each and number == 0
            mode = PartMode.ELEMENTS if is_split else PartMode.VALUE
            ref = self._part_or_ask(item, name, source, mode, now)
            if ref is None:
                return
            if isinstance(ref, BrokenRef):
                self._end(item, happened, f"{node.task}: {ref.reason}")
                return
            if is_split and isinstance(ref, ListRef):
                elements = len(ref.elements)
        self._ready(item, name)
        queue = self._queues[name][item.priority]
        if not node.each:
            queue.append(Unit(item, name, queued=now))
            return
        item.counts[name] = item.missing[name] = elements
        queue.extend(Unit(item, name, number, now) for number in range(elements))
        if not elements:
            self._over(item, name, now, happened)

    def _ready(self, item: ItemState, name: str) -> None:
        del item.left[name]
        self._to_come[name] -= 1

    def _part_or_ask(
        self, item: ItemState, asker: str, source: ValueSource, mode: PartMode, now: float
    ) -> Ref | None:
        """The part, or None when its derivation is queued: `asker` goes on after it."""
        found = item.part(source, mode)
        if found is not None:
            return found
        name, path = item.origin(source.name, source.path)
        value = item.part(ValueSource(name=name, path=path), PartMode.VALUE)
        if isinstance(value, BrokenRef):
            return value
        derived = (name, Part(path, mode))
        if (askers := item.asked.get(derived)) is not None:
            askers.append(asker)
        else:
            item.asked[derived] = [asker]
            self._queues[DERIVE][item.priority].append(Unit(item, name, queued=now, derived=derived))
        return None

    def _over(self, item: ItemState, name: str, now: float, happened: Happened) -> None:
        """The node's value is there, or it was skipped."""
        item.over.add(name)
        for follower in self.routes.followers[name]:
            if (waits := item.left.get(follower)) is not None and name in waits:
                waits.discard(name)
                if not waits and not item.is_over:
                    self._begin(item, follower, now, happened)
        if not item.is_over:
            self._take_outputs(item, now, happened)
        if not item.is_over:
            for value, users in item.users.items():
                if name in users:
                    users.discard(name)
                    if not users:
                        happened.freed += item.drop(value)

    def _take_outputs(self, item: ItemState, now: float, happened: Happened) -> None:
        """The outputs whose values are there; the last one ends the item."""
        for output, source in self.routes.outputs.items():
            is_there = source.name in item.over or source.name in self.routes.inputs
            if not is_there or output in item.outputs or output in item.outputs_asked:
                continue
            ref = self._part_or_ask(item, f"={output}", source, PartMode.OUTPUT, now)
            if ref is None:
                item.outputs_asked.add(output)
            else:
                self._take_output(item, output, ref, happened)
            if item.is_over:
                return

    def _take_output(self, item: ItemState, output: str, ref: Ref, happened: Happened) -> None:
        if isinstance(ref, BrokenRef):
            self._end(item, happened, f"the output: {ref.reason}")
            return
        item.outputs[output] = ref
        if len(item.outputs) == len(self.routes.outputs):
            self._end(item, happened)

    def _end(
        self, item: ItemState, happened: Happened, reason: str = "", *, is_cancelled: bool = False
    ) -> None:
        if item.is_over:
            return
        item.is_over = True
        del self.items[item.id]
        for name in item.left:
            self._to_come[name] -= 1
        for queues in self._queues.values() if reason else ():
            mine = queues[item.priority]
            if any(unit.item is item for unit in mine):
                kept = [unit for unit in mine if unit.item is not item]
                mine.clear()
                mine.extend(kept)
        happened.freed += item.drop_all()
        happened.ended.append(ItemEnd(item, reason, is_cancelled))
