"""A process of one task: takes batches from the executor, runs them, answers with the parts that are needed.

It is a fork of a template that has run the user's file, or runs it itself. Its results lie in a memory file
that the executor made, so they outlive it.
"""

import gc
import os
import resource
import socket
import sys
import time
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from serving.graphs.calling import CallFailure, call_batch
from serving.graphs.description import GraphDescription
from serving.graphs.encoding import decode_named
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.loading import load_graph
from serving.graphs.paths import follow
from serving.graphs.program import Graph, GraphValue
from serving.graphs.routes import GraphRoutes, Part, PartMode
from serving.graphs.serial import look_up, reason_of_failure
from serving.graphs.service_calls import deadlines
from serving.graphs.wire import BodyReader, ResultPacker, read_beside
from serving.runtime.arena import Arena, ArenaPlace, ArenaUnavailable, ArenaView
from serving.runtime.board import ProcessBoard
from serving.runtime.children import ChildOrder, tell
from serving.runtime.errors import AppError
from serving.runtime.frames import Frame, FrameReader, Meta, pack_frame
from serving.runtime.gpu_model import Files
from serving.runtime.packing import unpack
from serving.runtime.template import serve_forks

READ_BYTES = 65_536
"""More would be mapped and unmapped for each message."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class LoadedGraph:
    """The user's file as the template has it."""

    def __init__(self, file: Path) -> None:
        try:
            self.graph: Graph = load_graph(file)
        except GraphError as error:
            raise AppError(str(error)) from None

    @property
    def description(self) -> Meta:
        return self.graph.description.document()


def run_template(order: ChildOrder, channel: socket.socket) -> None:
    serve_forks(order, channel, load=LoadedGraph, work=serve_task)


def run(order: ChildOrder, channel: socket.socket) -> None:
    pin(order.graph["cores"])
    serve_task(LoadedGraph(order.path), order, channel)


def serve_task(loaded: LoadedGraph, order: ChildOrder, channel: socket.socket) -> None:
    pin(order.graph["cores"])
    began = time.monotonic()
    process = TaskProcess(loaded.graph, order, channel)
    limit_threads(order.graph["threads"])
    gc.collect()
    gc.freeze()
    tell(channel, {"ready": {"load_seconds": time.monotonic() - began, "has_memory": process.has_memory}})
    process.serve()


def pin(cores: list[int]) -> None:
    """Runs on these processor cores alone, as far as the machine has them."""
    if there := os.sched_getaffinity(0) & set(cores):
        os.sched_setaffinity(0, there)


def limit_threads(threads: int) -> None:
    """Libraries that count the machine's cores whatever the environment says are told here."""
    if (cv2 := sys.modules.get("cv2")) is not None:
        cv2.setNumThreads(threads)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(threads)


class TaskProcess:
    """The loop. Not reentrant: one batch at a time."""

    def __init__(self, graph: Graph, order: ChildOrder, channel: socket.socket) -> None:
        name = order.name.partition("#")[0]
        self._graph, self._channel, self._parent = graph, channel, order.parent
        self._cell = ProcessBoard(order.board).cells[order.cell]
        self._routes = GraphRoutes(GraphDescription.parse(graph.description.document()))
        self._nodes = {node.name: node for node in graph.nodes}
        self._arena = self._own_arena(order)
        global _arena
        _arena = self._arena
        self._views: dict[int, ArenaView] = {}
        self._borrowed: dict[int, int] = {}
        self._released: list[int] = []
        task = next(one for one in graph.loaded if one.name == name)
        self._is_class = task.task.is_class
        self._name = name
        self._run = task.make(Files(order.path.parent))

    @property
    def has_memory(self) -> bool:
        return self._arena is not None

    def _own_arena(self, order: ChildOrder) -> Arena | None:
        size = order.graph["size"]
        try:
            return Arena(size, self._open(order.graph["arena"])) if size else None
        except (ArenaUnavailable, OSError):
            return None

    def _open(self, descriptor: int) -> int:
        """Our own descriptor of a memory file of the executor, whose user we share."""
        return os.open(f"/proc/{self._parent}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)

    def serve(self) -> None:
        reader = FrameReader()
        while data := self._channel.recv(READ_BYTES):
            for kind, meta, body in reader.feed(data):
                if kind is Frame.REQUEST:
                    self._work(meta, body)
                elif kind is Frame.STATE:
                    pin(meta["cores"])

    def _work(self, meta: Meta, body: bytes) -> None:
        for number in meta["forget"]:
            self._views.pop(number, None)
        for number, descriptor, size in meta["arenas"]:
            self._views[number] = ArenaView(self._open(descriptor), size)
        began, cpu = time.monotonic_ns(), time.process_time()
        self._cell.since_ns = began
        packer = ResultPacker(self._arena)
        results = self._results(meta, BodyReader(body), packer)
        self._cell.since_ns = 0
        lease = meta["id"]
        released, self._released = self._released, []
        answer = {
            "id": lease,
            "results": results,
            "seconds": (time.monotonic_ns() - began) / 1e9,
            "cpu": time.process_time() - cpu,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "is_held": bool(self._borrowed.get(lease)),
            "released": released,
        }
        self._channel.sendall(pack_frame(Frame.ANSWER, answer, packer.body.bytes()))

    def _results(self, meta: Meta, body: BodyReader, packer: ResultPacker) -> list[Any]:
        """Return one result per unit: documents of its parts, or the reason that it failed for."""
        results: list[Any] = [None] * len(meta["units"])
        calls: list[tuple[int, tuple[Any, ...]]] = []
        untils: list[float] = []
        for number, unit in enumerate(meta["units"]):
            try:
                values = [self._value(ref, body, meta["id"]) for ref in unit["refs"]]
            except ItemFailed as error:
                results[number] = str(error)
                continue
            except Exception as error:
                results[number] = reason_of_failure(unit["node"] or self._name, error)
                continue
            if "part" in unit:
                path, mode = unit["part"]
                results[number] = [packer.part(values[0], Part(tuple(path), PartMode(mode)))]
            else:
                calls.append((number, self._arguments(unit["node"], values)))
                untils.append(unit["until"] or inf)
        batch = [one for _, one in calls]
        deadlines.set(untils)
        called = call_batch(self._run, batch, task=self._name, is_class=self._is_class)
        for (number, _), result in zip(calls, called, strict=True):
            if isinstance(result, CallFailure):
                results[number] = result.reason
            else:
                results[number] = packer.parts(
                    result.value, self._routes.parts[meta["units"][number]["node"]]
                )
        return results

    def _arguments(self, node: str, values: list[Any]) -> tuple[Any, ...]:
        given = iter(values)
        return tuple(
            next(given) if isinstance(one, GraphValue) else one for one in self._nodes[node].arguments
        )

    # Values

    def _value(self, ref: list[Any], body: BodyReader, lease: int) -> Any:
        kind, *more = ref
        if kind == "l":
            return [self._value(one, body, lease) for one in more[0]]
        if kind == "o":
            condition = self._nodes[more[0]].condition
            assert condition is not None  # noqa: S101 - the executor sends it for such nodes alone
            return follow(look_up(condition[1], {}), more[1])
        borrow = partial(self._borrow, lease)
        if kind == "i":
            name, path, places = more
            (data,) = read_beside(places, body, borrow)
            return follow(decode_named(name, self._graph.inputs[name], bytes(data)), path)
        length, places = more
        pickled = body.take(length)
        return unpack(pickled, read_beside(places, body, borrow))

    def _borrow(self, lease: int, arena: int, offset: int, length: int) -> Any:
        self._borrowed[lease] = self._borrowed.get(lease, 0) + 1
        return self._views[arena].borrow(ArenaPlace(0, offset, length), partial(self._ended, lease))

    def _ended(self, lease: int) -> None:
        self._borrowed[lease] -= 1
        if not self._borrowed[lease]:
            del self._borrowed[lease]
            self._released.append(lease)


_arena: Arena | None = None
"""That of this process."""


def empty(shape: Any, dtype: Any = "float32") -> Any:
    """An array in the memory that the next task reads: filling it in place and returning it copies nothing.
    Where there is no such memory, an ordinary one."""
    import numpy as np

    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    chunk = _arena.allocate(count * kind.itemsize) if _arena is not None and count else None
    return np.empty(shape, kind) if chunk is None else chunk.view(kind).reshape(shape)
