"""Models as a CPU process calls them: choosing one of a model's processes, sending, waiting."""

import asyncio
import contextlib
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from serving.runtime.arena import ArenaUnavailable
from serving.runtime.board import Phase, ProcessBoard
from serving.runtime.context import context
from serving.runtime.errors import AppError, Cancelled, Problem
from serving.runtime.gpu_model import GpuModel
from serving.runtime.links import NO_DEADLINE, Link, LinkClosed, LinkMessage, LinkMessageKind, connect, ids
from serving.runtime.readable import until_readable

GREETING_LOOK_MS = 50
LATE_SECONDS = 0.25
"""How long after the deadline the model's process may still say so itself."""


class ModelHandles:
    """All models of a service. `interrupted` is asked when `front` has something to say while a call waits:
    whether its client has left."""

    def __init__(
        self,
        places: Mapping[str, Sequence[Sequence[Any]]],
        board: ProcessBoard,
        *,
        arena_bytes: int,
        front: int = -1,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._handles = {
            name: Handle(name, [_Process(bytes.fromhex(address), cell) for address, cell in listed], self)
            for name, listed in places.items()
        }
        self.board = board
        self.arena_bytes = arena_bytes
        self.front = front
        self.interrupted = interrupted
        self.calls: list[tuple[str, int, int, int, int]] = []
        """Of the request that is worked on: method, when it was sent, and the three figures of its result."""

    def handle(self, model: type[GpuModel]) -> "Handle":
        if model.__name__ not in self._handles:
            raise AppError(f"{model.__name__} is not among the models at the top level of the service's file")
        return self._handles[model.__name__]


class _Process:
    """A process of a model: where it listens, and the connection to it."""

    def __init__(self, address: bytes, cell: int) -> None:
        self.address, self.cell = address, cell
        self.link: Link | None = None
        self.owner = 0
        self.poll = select.poll()

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None


class Handle:
    """A ModelHandle."""

    def __init__(self, name: str, processes: Sequence[_Process], models: ModelHandles) -> None:
        self._name, self._processes, self._models = name, processes, models
        self._sent_at: dict[int, int] = {}

    def run(self, method: str, *arguments: Any) -> Any:
        process = self._ready()
        with self._sending(process, LinkMessageKind.CALL, method, arguments) as (link, id):
            while True:
                for message in self._wait(process, link):
                    if message.id == id:
                        return self._result(method, message)

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        process = self._ready()
        with self._sending(process, LinkMessageKind.STREAM, method, arguments) as (link, id):
            while True:
                for message in self._wait(process, link):
                    if message.id != id:
                        continue
                    if message.kind == LinkMessageKind.END:
                        return
                    yield self._result(method, message)

    async def run_async(self, method: str, *arguments: Any) -> Any:
        process = self._ready()
        # Of its own: what several calls wait for must not be read by one of them.
        own = _Process(process.address, process.cell)
        try:
            with self._sending(own, LinkMessageKind.CALL, method, arguments) as (link, id):
                while True:
                    await self._until_readable(link)
                    for message in link.read():
                        if message.id == id:
                            return self._result(method, message)
        finally:
            own.close()

    async def _until_readable(self, link: Link) -> None:
        try:
            async with asyncio.timeout(self._seconds_left()):
                await until_readable(link.descriptor)
        except TimeoutError:
            raise self._late() from None

    def empty(self, shape: Sequence[int], dtype: Any = "float32") -> Any:
        import numpy as np

        kind = np.dtype(dtype)
        link = self._link(self._ready())
        chunk = link.arena.allocate(int(np.prod(shape)) * kind.itemsize) if link.arena else None
        return np.empty(shape, kind) if chunk is None else np.ndarray(tuple(shape), kind, chunk)

    # Choosing and connecting

    def _ready(self) -> _Process:
        """The one with the least to do."""
        cells = self._models.board.cells
        ready = [process for process in self._processes if cells[process.cell].phase == Phase.READY]
        if not ready:
            is_loading = any(cells[process.cell].phase == Phase.LOADING for process in self._processes)
            words = "is being loaded again" if is_loading else "has no process at present"
            raise Problem(503, "Model unavailable", f"{self._name} {words}; try again shortly.")
        return min(ready, key=lambda process: cells[process.cell].load) if len(ready) > 1 else ready[0]

    def _link(self, process: _Process) -> Link:
        owner = self._models.board.cells[process.cell].owner
        if process.link is not None and process.owner != owner:
            process.close()
        if process.link is None:
            process.owner = owner
            try:
                process.link = connect(process.address, self._models.arena_bytes)
                process.link.greet()
                self._await_greeting(process, process.link)
            except (LinkClosed, ArenaUnavailable) as error:
                process.close()
                raise self._gone(str(error)) from None
            process.poll = select.poll()
            process.poll.register(process.link.descriptor, select.POLLIN)
            if self._models.front >= 0:
                process.poll.register(self._models.front, select.POLLIN)
        return process.link

    def _await_greeting(self, process: _Process, link: Link) -> None:
        """A model's process accepts connections between batches; one that was started anew, when it has
        loaded. Its listener outlives it, so the board is asked whether it is still there. Raises
        LinkClosed."""
        cell = self._models.board.cells[process.cell]
        waiting = select.poll()
        waiting.register(link.descriptor, select.POLLIN)
        while not waiting.poll(GREETING_LOOK_MS):
            if cell.phase != Phase.READY or cell.owner != process.owner:
                raise LinkClosed("before it answered")
            if context.get().deadline + LATE_SECONDS <= time.monotonic():
                process.close()
                raise self._late()
        link.be_greeted()

    def _gone(self, reason: str) -> Problem:
        return Problem(
            503,
            "Model process ended",
            f"The process of {self._name} ended ({reason}); it is being started again.",
        )

    # One call

    @contextlib.contextmanager
    def _sending(
        self, process: _Process, kind: LinkMessageKind, method: str, arguments: tuple[Any, ...]
    ) -> Iterator[tuple[Link, int]]:
        """Whatever ends the call before its answer ends it in the model's process, too."""
        link, id, current = self._link(process), next(ids), context.get()
        limit = int(current.deadline * 1e9) if current.deadline < 1e9 else NO_DEADLINE
        sent_at = self._sent_at[id] = time.monotonic_ns()
        try:
            link.send(kind, id, (method, arguments), (limit, current.priority, sent_at))
            is_over = False
            try:
                yield link, id
                is_over = True
            except Problem as problem:
                is_over = not isinstance(problem, _Late)
                raise
            finally:
                if not is_over and process.link is link:
                    link.send(LinkMessageKind.CANCEL, id)
        except LinkClosed as error:
            process.close()
            raise self._gone(str(error)) from None
        finally:
            del self._sent_at[id]

    def _wait(self, process: _Process, link: Link) -> list[LinkMessage]:
        """Messages of this and of earlier calls; none now and then."""
        left = self._seconds_left()
        events = process.poll.poll(None if left is None else max(1, int(left * 1_000)))
        if not events and context.get().deadline + LATE_SECONDS <= time.monotonic():
            raise self._late()
        for descriptor, _ in events:
            if descriptor == link.descriptor:
                return link.read()
            if self._models.interrupted():
                raise Cancelled
        return []

    def _seconds_left(self) -> float | None:
        """Return how long to wait for the model's process; None: without end."""
        deadline = context.get().deadline
        return None if deadline == float("inf") else max(0.0, deadline + LATE_SECONDS - time.monotonic())

    def _late(self) -> Problem:
        return _Late(504, "Deadline exceeded", f"{self._name} did not answer in time.")

    def _result(self, method: str, message: LinkMessage) -> Any:
        if message.kind == LinkMessageKind.ERROR:
            status, title, detail = message.load()
            raise Problem(status, title, detail)
        (result,) = message.load()
        if message.kind == LinkMessageKind.RESULT:
            self._models.calls.append((f"{self._name}.{method}", self._sent_at[message.id], *message.figures))
        return result


class _Late(Problem):
    """The model's process goes on with it."""
