"""Runs a graph by a plan: processes per task, values in shared memory, messages by sockets.

The executor opens nothing that the user's code made. It may run in a process of its own, in a command, or
beside others on an event loop. When it ends, however, its processes and memory end with it.
"""

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from serving.graphs.call_records import CallRecords, ModelCalled
from serving.graphs.counters import GraphCounters
from serving.graphs.description import ValueSource
from serving.graphs.errors import EntryFull, GraphError, ItemExpired, ItemFailed, ItemForgotten
from serving.graphs.item_records import ItemRecord, ItemRecords, Outputs, Progress, SubmittedItem
from serving.graphs.item_state import ItemState, PackedRef, Unit
from serving.graphs.memory import MemoryPool
from serving.graphs.plan import GraphPlan
from serving.graphs.replica_set import ReplicaSet
from serving.graphs.replicas import Replica, ReplicaCall, RequestWriter
from serving.graphs.routes import PartMode
from serving.graphs.scheduler import OFFLINE, ONLINE, GraphScheduler, Happened, Lease, UnitResult
from serving.graphs.wire import BodyReader
from serving.runtime.frames import Frame, Meta

log = logging.getLogger(__name__)

ARENA_BYTES = 512 << 20


class GraphExecutor:
    """`file`: the user's. `plan`: None means one process a task. `arena_bytes`: of shared memory per process,
    of which only what is used is taken; 0: none."""

    def __init__(
        self, file: Path, plan: GraphPlan | Mapping[str, Any] | None = None, *, arena_bytes: int = ARENA_BYTES
    ) -> None:
        self._wanted_plan = plan
        self._pool = MemoryPool(arena_bytes)
        self._processes = ReplicaSet(file, self._pool, on_ready=self._pump, on_broken=self._break)
        self._waiting: deque[SubmittedItem] = deque()
        self._inside: dict[int, SubmittedItem] = {}
        self._ids = itertools.count(1)
        self._leases = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._is_pumping, self._is_stopped = False, True
        self._switching = asyncio.Lock()
        self._room = asyncio.Event()
        self.calls = CallRecords()
        self._ended = {"done": 0, "failed": 0, "cancelled": 0}
        self.kept = ItemRecords()
        """Items that are over."""
        self._switched: asyncio.Task[None] | None = None
        self.switch_problem = ""

    # Its life

    async def start(self) -> None:
        """Returns when every process of the plan is ready. Raises GraphError."""
        if self._pool.notice:
            log.warning("%s", self._pool.notice)
        try:
            self.graph = await self._processes.load()
            plan = self._wanted_plan or GraphPlan.of_one_each(self.graph)
            if not isinstance(plan, GraphPlan):
                plan = GraphPlan.parse(plan, self.graph)
            self._scheduler = GraphScheduler(self.graph, plan)
            self._order_of_tasks = [task.name for task in reversed(self.graph.tasks)]
            await self._processes.start(plan.tasks)
        except BaseException:
            await self.stop()
            raise
        self.calls.began = time.monotonic()
        self._is_stopped = False

    async def stop(self) -> None:
        """Items that are inside or wait fail."""
        self._is_stopped = True
        self._break("the graph was stopped")
        await self._processes.stop()
        self._pool.close()

    def _break(self, reason: str) -> None:
        waiting = [*self._waiting, *self._inside.values()]
        self._waiting.clear()
        for one in waiting:
            if not one.outcome.done():
                one.outcome.set_exception(ItemFailed(reason))
        self._room.set()

    async def died(self) -> str:
        """Why it cannot go on; otherwise never returns."""
        return await self._processes.died()

    async def switch(self, plan: GraphPlan | Mapping[str, Any]) -> None:
        """Takes over another plan while items go on. A process that must be replaced is there before the old
        one goes, one at a time, so no more than one process comes on top of the larger plan. Raises
        ProtocolError for a plan of another graph."""
        wanted = plan if isinstance(plan, GraphPlan) else GraphPlan.parse(plan, self.graph)
        await self._switch(wanted)

    def begin_switch(self, plan: Mapping[str, Any]) -> None:
        """Begin a `switch` and return at once: `is_switching` says when it is over, `switch_problem` why it
        failed."""
        wanted = GraphPlan.parse(plan, self.graph)
        self.switch_problem = ""
        self._switched = asyncio.create_task(self._switch(wanted))
        self._switched.add_done_callback(self._switch_ended)

    def _switch_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the plan was not taken over: %s", error)
            self.switch_problem = str(error)

    @property
    def is_switching(self) -> bool:
        return self._switching.locked()

    async def _switch(self, wanted: GraphPlan) -> None:
        async with self._switching:
            self._scheduler.plan = replace(wanted, tasks=dict(self._scheduler.plan.tasks))
            for task, one in wanted.tasks.items():
                self._scheduler.plan.tasks[task] = one  # type: ignore[index]
                await self._processes.switch(task, one)
            self._pump()

    # Items

    async def room(self) -> None:
        """Returns when the entry takes another item at once: who reads files waits here before the next."""
        while not (self._is_stopped or self._processes.broken or self._has_room()):
            self._room.clear()
            await self._room.wait()

    def submit(
        self,
        inputs: Mapping[str, bytes],
        *,
        priority: int = ONLINE,
        deadline_seconds: float | None = None,
        progress: Progress | None = None,
        retry_of: int = 0,
    ) -> tuple[int, "asyncio.Future[Outputs]"]:
        """The item's number, and its outputs; the future raises ItemFailed. Encoded bytes wait at the entry
        until there is room, as many as the plan allows. Cancelling the future cancels the item."""
        missing = [one.name for one in self.graph.inputs if one.name not in inputs]
        if missing or len(inputs) != len(self.graph.inputs):
            raise GraphError(f"an item needs {', '.join(one.name for one in self.graph.inputs)}")
        loop = asyncio.get_running_loop()
        one = SubmittedItem(next(self._ids), dict(inputs), priority, loop.create_future(), progress, retry_of)
        if self._is_stopped or self._processes.broken:
            one.outcome.set_exception(ItemFailed(self._processes.broken or "the graph was stopped"))
            return one.id, one.outcome
        most = self.plan.entry.waiting
        if most and len(self._waiting) >= most:
            one.outcome.set_exception(EntryFull(f"{most} items wait already"))
            return one.id, one.outcome
        if deadline_seconds is not None:
            one.until = time.monotonic() + deadline_seconds
            one.timer = loop.call_later(deadline_seconds, self._expire, one)
        one.outcome.add_done_callback(partial(self._settled, one))
        self._waiting.append(one)
        self._pump()
        return one.id, one.outcome

    def retry(self, item: int) -> int:
        """Run a failed item again, as one of its own whose number is returned. Raises ItemForgotten."""
        record = self.kept.get(item)
        if not record.inputs:
            raise ItemForgotten(f"the inputs of item {item} are no longer kept")
        number, outcome = self.submit(record.inputs, priority=OFFLINE, retry_of=item)
        # Its record says how it ended.
        outcome.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return number

    def _expire(self, one: SubmittedItem) -> None:
        self._drop(one, ItemExpired("its deadline has passed"))

    def cancel(self, item: int) -> None:
        for one in [*self._waiting, *self._inside.values()]:
            if one.id == item:
                self._drop(one, ItemFailed("it was cancelled"), is_cancelled=True)

    def _drop(self, one: SubmittedItem, error: ItemFailed, *, is_cancelled: bool = False) -> None:
        if not one.outcome.done():
            one.outcome.set_exception(error)
        if one in self._waiting:
            self._waiting.remove(one)
            self._over(one, "cancelled" if is_cancelled else "failed", str(error))
        elif one.id in self._inside:
            self._take(self._scheduler.end(one.id, str(error), is_cancelled=is_cancelled))
            self._pump()

    def _settled(self, one: SubmittedItem, outcome: "asyncio.Future[Outputs]") -> None:
        if one.timer is not None:
            one.timer.cancel()
        if outcome.cancelled():
            self.cancel(one.id)

    # The loop: whatever happens leads here

    def _pump(self) -> None:
        if self._is_pumping or self._is_stopped:
            return
        self._is_pumping = True
        try:
            self._admit()
            due = inf
            now = time.monotonic()
            for task in self._order_of_tasks:
                for replica in self._processes.replicas[task]:
                    if not replica.is_idle:
                        continue
                    lease = self._scheduler.lease(task, now, comes_more=bool(self._waiting))
                    if lease is None:
                        due = min(due, self._scheduler.due_in(task, now, comes_more=bool(self._waiting)))
                        break
                    self._hand_over(replica, lease)
                    self._admit()
        finally:
            self._is_pumping = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due != inf:
            self._timer = asyncio.get_running_loop().call_later(max(due, 0.0005), self._pump)

    def _admit(self) -> None:
        while self._waiting and self._scheduler.has_room(self._pool.used):
            one = self._waiting.popleft()
            self._inside[one.id] = one
            inputs = {name: self._pool.add_input(data) for name, data in one.inputs.items()}
            _, happened = self._scheduler.admit(one.id, inputs, now=time.monotonic(), priority=one.priority)
            self._take(happened)
        if self._has_room():
            self._room.set()

    def _has_room(self) -> bool:
        return not self._waiting and self._scheduler.has_room(self._pool.used)

    def _hand_over(self, replica: Replica, lease: Lease) -> None:
        writer = RequestWriter(self._pool, replica)
        units = [self._unit(writer, unit) for unit in lease.units]
        number = next(self._leases)
        forget = [one for one in self._pool.retired if one in replica.known]
        replica.known.difference_update(forget)
        meta = writer.meta(number, units, forget)
        replica.lease = lease
        replica.child.call = ReplicaCall(  # type: ignore[assignment]
            number, replica, lease, writer.pinned, answered=self._answered, lost=self._lost
        )
        body = writer.body.bytes()
        counters = self._processes.counters[replica.task]
        counters.bytes_in += sum(value.size for value in writer.pinned)
        replica.child.send(Frame.REQUEST, meta, body)

    def _unit(self, writer: RequestWriter, unit: Unit) -> Meta:
        item = unit.item
        if unit.derived is not None:
            name, (path, mode) = unit.derived
            ref = item.part(ValueSource(name=name, path=path), PartMode.VALUE)
            return {"node": "", "refs": [writer.ref(ref)], "part": ((), mode)}  # type: ignore[arg-type]
        node = self._scheduler.routes.nodes[unit.node]
        refs = []
        for number, source in self._scheduler.routes.values_of(node):
            if node.each and number == 0:
                split = item.part(source, PartMode.ELEMENTS)
                refs.append(writer.ref(split.elements[unit.element]))  # type: ignore[union-attr]
            else:
                refs.append(writer.ref(item.part(source, PartMode.VALUE)))  # type: ignore[arg-type]
        # Tasks that call services pass it on.
        until = self._inside[item.id].until
        return {"node": unit.node, "refs": refs, "until": None if until == inf else until}

    def _answered(self, call: ReplicaCall, meta: Meta, body: bytes) -> None:
        now = time.monotonic()
        replica, lease = call.replica, call.lease
        reader = BodyReader(body)
        results = [
            self._result(unit, one, reader, replica.arena)
            for unit, one in zip(lease.units, meta["results"], strict=True)
        ]
        self.calls.measure(self._processes.counters[replica.task], replica, lease, results, meta, now)
        if meta["is_held"]:
            replica.held[call.number] = call.pinned
        else:
            for value in call.pinned:
                self._pool.unpin(value)
        for number in meta["released"]:
            for value in replica.held.pop(number, ()):
                self._pool.unpin(value)
        self._take(self._scheduler.complete(lease, results, now))
        self._report(lease)
        self._pump()

    def _result(self, unit: Unit, result: Any, body: BodyReader, arena: int) -> UnitResult:
        if isinstance(result, str):
            return result
        parts = [unit.derived[1]] if unit.derived else self._scheduler.routes.parts[unit.node]
        return {part: self._pool.read_part(one, body, arena) for part, one in zip(parts, result, strict=True)}

    def _lost(self, call: ReplicaCall, reason: str) -> None:
        now = time.monotonic()
        for unit in call.lease.units:
            self.calls.add(call.replica, call.lease, unit, now, "retried")
        for value in call.pinned:
            self._pool.unpin(value)
        self._take(self._scheduler.lost(call.lease, reason, now))
        self._pump()

    def _take(self, happened: Happened) -> None:
        for end in happened.ended:
            one = self._inside.pop(end.item.id)
            one.calls = end.item.calls
            state = "cancelled" if end.is_cancelled else "failed" if end.reason else "done"
            outputs = {} if end.reason else self._outputs(end.item)
            self._over(one, state, end.reason, outputs)
            if one.outcome.done():
                continue
            if end.reason:
                one.outcome.set_exception(ItemFailed(end.reason))
            else:
                one.outcome.set_result(outputs)
        for value in happened.freed:
            self._pool.free(value)

    def _over(self, one: SubmittedItem, state: str, reason: str, outputs: Outputs | None = None) -> None:
        self._ended[state] += 1
        record = one.record(state)
        record.reason = reason
        record.inputs = {} if state == "cancelled" else one.inputs
        record.outputs = outputs or {}
        self.kept.add(record)

    def records(self) -> list[ItemRecord]:
        """Items that wait or run and those that are over, the newest first."""
        waiting = [one.record("waiting") for one in reversed(self._waiting)]
        running = [one.record("running") for one in reversed(self._inside.values())]
        return [*waiting, *running, *self.kept.newest()]

    def calls_of(self, item: int) -> list[ModelCalled]:
        """Return the calls of an item's tasks as the runtime counts and traces those of models."""
        try:
            return [self.calls.told(one) for one in self.kept.get(item).calls]
        except ItemForgotten:
            return []

    def _outputs(self, item: ItemState) -> Outputs:
        return {
            name: self._pool.read_output(ref.packed)
            for name, ref in item.outputs.items()
            if isinstance(ref, PackedRef)
        }

    # What is told

    def _report(self, lease: Lease) -> None:
        for unit in lease.units:
            one = self._inside.get(unit.item.id)
            if one is None or one.progress is None:
                continue
            for name in sorted(unit.item.over - one.told):
                one.told.add(name)
                one.progress(name, len(one.told), len(self.graph.nodes))

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name, of those that are ready: `template`, or the task with its number."""
        return self._processes.pids

    @property
    def plan(self) -> GraphPlan:
        return self._scheduler.plan

    def counters(self) -> GraphCounters:
        for task, one in self._processes.counters.items():
            one.queued = self._scheduler.queued(task)
            one.running = sum(
                len(each.lease.units) for each in self._processes.replicas[task] if each.lease is not None
            )
            one.retried = self._scheduler.retried[task]
        return GraphCounters(
            elapsed_seconds=time.monotonic() - self.calls.began,
            done=self._ended["done"],
            failed=self._ended["failed"],
            cancelled=self._ended["cancelled"],
            in_flight=len(self._inside),
            waiting=len(self._waiting),
            memory_bytes=self._pool.used,
            tasks=self._processes.counters,
        )
