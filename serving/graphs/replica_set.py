"""The processes of a graph: forks of a template where they may be, each kept, replaced and ended."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from serving.graphs.counters import TaskCounters
from serving.graphs.description import GraphDescription
from serving.graphs.errors import GraphError
from serving.graphs.memory import MemoryPool
from serving.graphs.plan import TaskPlan, gpu_of
from serving.graphs.replicas import Replica, cores_of
from serving.graphs.task_process import THREAD_VARIABLES
from serving.graphs.wire import INLINE
from serving.leash import adopt_orphans
from serving.runtime.arena import ArenaUnavailable
from serving.runtime.board import ProcessBoard
from serving.runtime.children import ChildOrder
from serving.runtime.frames import Frame, Meta
from serving.runtime.supervised_child import Child

log = logging.getLogger(__name__)

CELLS = 1_024
LOOK_EVERY_SECONDS = 0.25
TEMPLATE_THREADS = 1
"""Processes with other numbers of threads run the file themselves: libraries read it when they are loaded."""


class ReplicaSet:
    """`on_ready` is called when a process can take work, `on_broken` with the reason when one cannot be kept
    running."""

    def __init__(
        self,
        file: Path,
        pool: MemoryPool,
        *,
        on_ready: Callable[[], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._file = file.resolve()
        self._pool = pool
        self._on_ready, self._on_broken = on_ready, on_broken
        self._board = ProcessBoard.create(CELLS)
        self._free_cells = list(range(CELLS - 1, -1, -1))
        self._keeping: dict[Child, asyncio.Task[str]] = {}
        self._template: Child | None = None
        self._looking: asyncio.Task[None] | None = None
        self._broken: asyncio.Future[str] | None = None
        self.graph: GraphDescription
        self.replicas: dict[str, list[Replica]] = {}
        self.counters: dict[str, TaskCounters] = {}

    async def load(self) -> GraphDescription:
        """Runs the user's file in the template. Raises GraphError."""
        adopt_orphans()
        loop = asyncio.get_running_loop()
        self._broken = loop.create_future()
        described: asyncio.Future[Meta] = loop.create_future()
        template = self._template = Child(
            self._order("graph-template", "template"), self._board, environment=_threads(TEMPLATE_THREADS)
        )
        template.on_described = lambda said: None if described.done() else described.set_result(said)
        self._keep(template)
        self._looking = asyncio.create_task(self._look())
        await self._or_broken(described)
        self.graph = GraphDescription.parse(described.result())
        if template.obstacle:
            log.warning("each process runs %s by itself: %s", self._file.name, template.obstacle)
        self.replicas = {task.name: [] for task in self.graph.tasks}
        self.counters = {task.name: TaskCounters() for task in self.graph.tasks}
        return self.graph

    @property
    def broken(self) -> str:
        """Why it cannot go on; empty: it can."""
        return self._broken.result() if self._broken is not None and self._broken.done() else ""

    async def died(self) -> str:
        """Why it cannot go on; otherwise never returns."""
        assert self._broken is not None  # noqa: S101 - it was loaded
        return await asyncio.shield(self._broken)

    async def _or_broken(self, wanted: "asyncio.Future[Any]") -> None:
        assert self._broken is not None  # noqa: S101 - it was loaded
        await asyncio.wait({wanted, self._broken}, return_when=asyncio.FIRST_COMPLETED)
        if self.broken:
            wanted.cancel()
            raise GraphError(self.broken)

    async def stop(self) -> None:
        tasks = [*self._keeping.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for child in self._keeping:
            child.kill()
        self._keeping.clear()
        os.close(self._board.descriptor)

    def _order(self, kind: str, name: str, **graph: Any) -> ChildOrder:
        return ChildOrder(
            kind=kind,
            file=str(self._file),
            name=name,
            channel=-1,
            board=self._board.descriptor,
            cell=self._free_cells.pop(),
            parent=os.getpid(),
            graph=graph,
        )

    def _keep(self, child: Child) -> None:
        task = self._keeping[child] = asyncio.create_task(child.keep())
        task.add_done_callback(self._gave_up)

    def _gave_up(self, task: "asyncio.Task[str]") -> None:
        if task.cancelled() or self._broken is None or self._broken.done():
            return
        reason = task.result() if task.exception() is None else str(task.exception())
        log.error("%s", reason)
        self._broken.set_result(reason)
        self._on_broken(reason)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            for child in self._keeping:
                child.enforce_limits(with_memory=False)

    def _add(self, task: str, number: int, plan: TaskPlan) -> Replica:
        arena = self._new_arena()
        order = self._order("graph", f"{task}#{number}", **self._placed(arena, plan, number))
        gpu = gpu_of(plan, number)
        environment = _threads(plan.threads) | {"CUDA_VISIBLE_DEVICES": "" if gpu is None else str(gpu)}
        if plan.device == "cuda" and gpu is None:
            del environment["CUDA_VISIBLE_DEVICES"]
        seconds = self.graph.task(task).timeout_seconds
        child = Child(order, self._board, environment=environment, work_within=seconds)
        replica = Replica(task, number, child, plan, arena)
        is_forked = plan.threads == TEMPLATE_THREADS and plan.device == "cpu"
        if is_forked and self._template is not None and not self._template.obstacle:
            child.template = self._template
        child.on_ready = partial(self._ready, replica)
        child.on_end = partial(self._gone, replica)
        self.replicas[task].append(replica)
        self.counters[task].replicas = len(self.replicas[task])
        self._keep(child)
        return replica

    def _new_arena(self) -> int:
        try:
            return self._pool.create()
        except ArenaUnavailable as error:
            log.warning("no shared memory for a process (%s): its values travel in messages", error)
            return INLINE

    def _placed(self, arena: int, plan: TaskPlan, number: int) -> dict[str, Any]:
        return {
            "arena": self._pool.descriptor(arena),
            "size": self._pool.size if arena != INLINE else 0,
            "cores": cores_of(plan, number),
            "threads": plan.threads,
        }

    def _ready(self, replica: Replica) -> None:
        said = replica.child.said["ready"]
        counters = self.counters[replica.task]
        counters.load_seconds = max(counters.load_seconds, said["load_seconds"])
        if replica.arena != INLINE and not said["has_memory"]:
            log.warning(
                "%s cannot map shared memory: its values travel in messages", replica.child.order.name
            )
        replica.is_ready = True
        self._on_ready()

    def _gone(self, replica: Replica) -> None:
        """Its process has ended; the next one gets a memory file of its own."""
        replica.is_ready = False
        self.counters[replica.task].restarts += 1
        self._let_go(replica)
        replica.arena = self._new_arena()
        placed = self._placed(replica.arena, replica.plan, replica.number)
        replica.child.order = replace(replica.child.order, graph=placed)

    def _let_go(self, replica: Replica) -> None:
        for values in replica.held.values():
            for value in values:
                self._pool.unpin(value)
        replica.held.clear()
        replica.known.clear()
        self._pool.retire(replica.arena)

    async def _retire(self, replica: Replica) -> None:
        """Ends it after what it is working on."""
        replica.is_retiring = True
        while replica.lease is not None:
            await asyncio.sleep(0.01)
        self.replicas[replica.task].remove(replica)
        self.counters[replica.task].replicas = len(self.replicas[replica.task])
        keeping = self._keeping.pop(replica.child)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        self._let_go(replica)
        self._free_cells.append(replica.child.order.cell)

    async def start(self, plans: Mapping[str, TaskPlan]) -> None:
        """Returns when every process is ready. Raises GraphError."""
        fresh = [
            self._add(task, number, plan) for task, plan in plans.items() for number in range(plan.replicas)
        ]
        await self._until_ready(fresh)

    async def _until_ready(self, replicas: Sequence[Replica]) -> None:
        await self._or_broken(asyncio.gather(*(one.child.is_ready.wait() for one in replicas)))

    async def switch(self, task: str, plan: TaskPlan) -> None:
        """Gives a task other processes. One that must be replaced ends when the next one is ready and its own
        work is done. Raises GraphError."""
        replicas = self.replicas[task]
        for replica in sorted(replicas, key=lambda one: one.number)[plan.replicas :]:
            await self._retire(replica)
        for replica in list(replicas):
            before, cores = replica.placement(), replica.cores()
            was, replica.plan = replica.plan, plan
            if replica.placement() != before:
                replica.plan = was
                await self._until_ready([self._add(task, replica.number, plan)])
                await self._retire(replica)
            elif replica.cores() != cores:
                replica.child.send(Frame.STATE, {"cores": replica.cores() or sorted(os.sched_getaffinity(0))})
        there = {one.number for one in replicas}
        fresh = [self._add(task, number, plan) for number in range(plan.replicas) if number not in there]
        await self._until_ready(fresh)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name, of those that are ready: `template`, or the task with its number."""
        ready = [child for child in self._keeping if child.is_ready.is_set()]
        return {child.order.name: child.pid for child in ready if child.pid is not None}


def _threads(count: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(count))
