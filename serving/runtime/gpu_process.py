"""A GPU process: one model, one thread, a queue per batched method.

One thread, so that a call costs no hand-over between threads: while a batch runs, what comes waits in the
sockets, and the next batch is made of it. Who hangs is seen by the front on the board, and ended.
"""

import contextlib
import logging
import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Generator, Hashable
from typing import Any

from serving.runtime.batching import BatchQueue, BatchRule, Item
from serving.runtime.board import Phase, ProcessBoard
from serving.runtime.children import ChildOrder, tell
from serving.runtime.errors import Problem
from serving.runtime.frames import FrameReader
from serving.runtime.gpu_model import Files, GpuModel
from serving.runtime.links import NO_DEADLINE, Link, LinkClosed, LinkMessage, LinkMessageKind, check_peer
from serving.runtime.loading import load_app
from serving.runtime.torch_profile import TorchProfile

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.001
"""How often a batch that waits looks whether anybody may still come."""
MOST_BUCKETS = 256
_ALONE = BatchRule(max_size=1)


def run(order: ChildOrder, channel: socket.socket) -> None:
    board = ProcessBoard(order.board)
    cell = board.cells[order.cell]
    cell.phase, cell.since_ns = Phase.LOADING, time.monotonic_ns()
    _, models = load_app(order.path)
    model = models[order.name.partition("#")[0]]()
    if model.cores:
        os.sched_setaffinity(0, model.cores)
    model.load(Files(order.path.parent))
    cell.since_ns = 0
    process = GpuProcess(model, socket.socket(fileno=order.listener), board, order, front=channel)
    cell.owner, cell.phase = os.getpid(), Phase.READY
    tell(channel, {"ready": {"device": _device()}})
    process.serve()


def _device() -> str:
    torch = sys.modules.get("torch")
    return "cuda" if torch is not None and torch.cuda.is_initialized() else "cpu"


def _on_host(results: Any) -> Any:
    """A whole tensor comes from the GPU in one copy rather than row by row."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(results, torch.Tensor):
        return results.detach().cpu()
    return results if hasattr(results, "__len__") else list(results)


class _Stream:
    """A generator that is stepped in turn with the batches."""

    def __init__(self, link: Link, id: int, deadline: float, pieces: Generator[Any, None, None]) -> None:
        self.link, self.id, self.deadline, self.pieces = link, id, deadline, pieces


class GpuProcess:
    """The loop. `board` tells how many requests are at work elsewhere; `front` orders profiles."""

    def __init__(
        self,
        model: GpuModel,
        listening: socket.socket,
        board: ProcessBoard,
        order: ChildOrder,
        *,
        front: socket.socket | None = None,
    ) -> None:
        self._model = model
        self._listening = listening
        listening.setblocking(False)
        self._cell = board.cells[order.cell]
        self._online = board.cells[: order.online]
        self._arena_bytes = order.arena_bytes
        self._poll = select.epoll()
        self._poll.register(listening.fileno(), select.EPOLLIN)
        self._front, self._orders = front, FrameReader()
        self._profile: TorchProfile | None = None
        if front is not None:
            self._poll.register(front.fileno(), select.EPOLLIN)
        self._links: dict[int, Link] = {}
        self._pinned: dict[int, int] = {}
        self._queues: dict[tuple[str, Hashable], BatchQueue] = {}
        self._streams: list[_Stream] = []

    def serve(self) -> None:
        while True:
            self._hear(self._pause())
            self._expire()
            if (due := self._due()) is not None:
                self._work(*due)
            self._step_streams()
            self._end_profile()
            self._cell.load = self._waiting + len(self._streams)

    @property
    def _waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    def _others(self) -> int:
        """Requests at work in CPU processes that do not wait here."""
        return sum(cell.load for cell in self._online) - self._waiting - len(self._streams)

    def _pause(self) -> float:
        if self._streams:
            return 0.0
        queues = [queue for queue in self._queues.values() if queue]
        if not queues:
            return -1.0 if self._profile is None else 0.1
        now, others = time.monotonic(), self._others()
        return min(LOOK_AGAIN_SECONDS, *(queue.due_in(now=now, others=others) for queue in queues), 1.0)

    def _due(self) -> tuple[str, BatchQueue] | None:
        now, others = time.monotonic(), self._others()
        due = [
            (queue.order, method, queue)
            for (method, _), queue in self._queues.items()
            if queue and queue.due_in(now=now, others=others) <= 0
        ]
        if not due:
            return None
        _, method, queue = min(due, key=lambda one: one[0])
        return method, queue

    # What comes

    def _hear(self, pause: float) -> None:
        for descriptor, event in self._poll.poll(pause):
            if descriptor == self._listening.fileno():
                self._accept()
                continue
            if self._front is not None and descriptor == self._front.fileno():
                self._hear_front(self._front)
                continue
            link = self._links[descriptor]
            try:
                if event & select.EPOLLOUT:
                    self._flush(link)
                if event & ~select.EPOLLOUT:
                    for message in link.read():
                        self._take(link, message)
            except LinkClosed:
                self._drop(link)

    def _hear_front(self, front: socket.socket) -> None:
        for _, meta, _ in self._orders.feed(front.recv(65_536)):
            try:
                self._profile = TorchProfile(meta["profile"])
            except Exception as error:
                tell(front, {"profiled": str(error) or type(error).__name__})

    def _end_profile(self) -> None:
        if self._profile is None or self._front is None or time.monotonic() < self._profile.ends_at:
            return
        profile, self._profile = self._profile, None
        try:
            trace = profile.trace()
        except Exception as error:
            tell(self._front, {"profiled": str(error) or type(error).__name__})
            return
        tell(self._front, {"profiled": ""}, trace)

    def _accept(self) -> None:
        try:
            connected, _ = self._listening.accept()
        except OSError:
            return
        try:
            check_peer(connected)
            # It has sent its greeting before anything else; one that does not must not hold us up.
            connected.settimeout(1.0)
            link = Link(connected, self._arena_bytes)
            link.greet()
            link.be_greeted()
            connected.setblocking(False)
        except (OSError, LinkClosed) as error:
            log.warning("a connection was refused: %s", error)
            connected.close()
            return
        self._pin(link)
        self._links[link.descriptor] = link
        self._poll.register(link.descriptor, select.EPOLLIN)

    def _pin(self, link: Link) -> None:
        """Page-locked, an arena is read by the GPU itself."""
        if _device() == "cuda" and link.their_arena is not None:
            import torch

            view = link.their_arena.bytes
            runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
            status = runtime.cudaHostRegister(view.ctypes.data, view.nbytes, 0)
            self._pinned[link.descriptor] = view.ctypes.data
            if int(status):
                del self._pinned[link.descriptor]
                log.warning("an arena cannot be page-locked (CUDA error %d): copies are slower", int(status))

    def _take(self, link: Link, message: LinkMessage) -> None:
        if message.kind == LinkMessageKind.CANCEL:
            self._cancel(lambda item: item.caller is link and item.id == message.id)
            self._end_streams(lambda stream: stream.link is link and stream.id == message.id)
            return
        deadline_ns, priority, sent_ns = message.figures
        deadline = deadline_ns / 1e9 if deadline_ns < NO_DEADLINE else float("inf")
        try:
            method, arguments = message.load()
            function = self._method(method)
            if message.kind == LinkMessageKind.STREAM:
                pieces = function(*arguments)
                if not isinstance(pieces, Generator):
                    raise Problem(
                        500, "Not a stream", f"{self._name}.{method} is no generator: call it by run"
                    )
                self._streams.append(_Stream(link, message.id, deadline, pieces))
                return
            rule: BatchRule = getattr(function, "__batch_rule__", _ALONE)
            bucket = rule.bucket(*arguments) if rule.bucket else None
        except Exception as error:
            self._fail(link, message.id, error)
            return
        queue = self._queues.get((method, bucket))
        if queue is None:
            if len(self._queues) >= MOST_BUCKETS:
                self._queues = {key: queue for key, queue in self._queues.items() if queue}
            queue = self._queues[method, bucket] = BatchQueue(rule)
        queue.add(Item(message.id, arguments, sent_ns / 1e9, deadline, priority, link))
        self._cell.load = self._waiting + len(self._streams)

    @property
    def _name(self) -> str:
        return type(self._model).__name__

    def _method(self, name: str) -> Any:
        function = None if name.startswith("_") or name == "load" else getattr(self._model, name, None)
        if not callable(function):
            raise Problem(500, "No such method", f"{self._name} has no method {name}")
        return function

    # What goes out of the queue without being run

    def _cancel(self, wanted: Any) -> None:
        for queue in self._queues.values():
            queue.remove(wanted)

    def _end_streams(self, wanted: Any) -> None:
        for stream in [stream for stream in self._streams if wanted(stream)]:
            self._streams.remove(stream)
            with contextlib.suppress(Exception):
                stream.pieces.close()

    def _expire(self) -> None:
        now = time.monotonic()
        for queue in self._queues.values():
            for item in queue.remove(lambda item: item.deadline <= now) if queue else ():
                self._fail(
                    item.caller, item.id, Problem(504, "Deadline exceeded", "It passed in the model's queue.")
                )

    # Work

    def _work(self, method: str, queue: BatchQueue) -> None:
        batch = queue.take(now=time.monotonic())
        function = self._method(method)
        is_batched = hasattr(function, "__batch_rule__")
        self._cell.load = self._waiting + len(batch)
        self._run(function, batch, is_batched=is_batched, queue=queue)
        self._cell.since_ns = 0

    def _run(self, function: Any, batch: list[Item], *, is_batched: bool, queue: BatchQueue | None) -> None:
        """A batch that raises is run again in halves, so that only what cannot be answered fails. `queue`: to
        learn the time from; None in such a second try."""
        began = time.monotonic()
        self._cell.since_ns = time.monotonic_ns()
        try:
            if is_batched:
                results = _on_host(
                    function(*map(list, zip(*(item.arguments for item in batch), strict=True)))
                )
            else:
                results = [function(*batch[0].arguments)]
        except Exception as error:
            if len(batch) == 1:
                log.error("%s failed", function.__qualname__, exc_info=error)
                self._fail(batch[0].caller, batch[0].id, error)
                return
            middle = len(batch) // 2
            self._run(function, batch[:middle], is_batched=True, queue=None)
            self._run(function, batch[middle:], is_batched=True, queue=None)
            return
        self._cell.since_ns = 0
        seconds = time.monotonic() - began
        if queue is not None:
            queue.observe(len(batch), seconds)
        if len(results) != len(batch):
            counts = f"{len(results)} results for {len(batch)} items"
            wrong = Problem(500, "Wrong count", f"{self._name}.{function.__name__} returned {counts}")
            log.error("%s", wrong)
            for item in batch:
                self._fail(item.caller, item.id, wrong)
            return
        for item, result in zip(batch, results, strict=True):
            waited = max(0, int((began - item.arrived) * 1e9))
            self._answer(
                item.caller,
                LinkMessageKind.RESULT,
                item.id,
                (result,),
                (waited, int(seconds * 1e9), len(batch)),
            )

    def _step_streams(self) -> None:
        for stream in list(self._streams):
            if stream.link.has_unsent:
                continue  # its reader is slow
            self._cell.since_ns = time.monotonic_ns()
            try:
                if time.monotonic() > stream.deadline:
                    raise Problem(504, "Deadline exceeded", "The stream was not at its end by then.")
                piece = next(stream.pieces)
            except StopIteration:
                self._streams.remove(stream)
                self._answer(stream.link, LinkMessageKind.END, stream.id, None)
            except Exception as error:
                self._streams.remove(stream)
                self._fail(stream.link, stream.id, error)
            else:
                self._answer(stream.link, LinkMessageKind.ITEM, stream.id, (piece,))
            self._cell.since_ns = 0

    # What goes back

    def _fail(self, link: Link, id: int, error: Exception) -> None:
        if isinstance(error, Problem):
            told = (error.status, error.title, error.detail)
        else:
            last = traceback.extract_tb(error.__traceback__)[-1:]
            where = f" ({os.path.basename(last[0].filename)}, line {last[0].lineno})" if last else ""  # noqa: PTH119
            told = (
                500,
                "The model failed",
                f"{self._name} raised {type(error).__name__}: {error}{where}"[:1_000],
            )
        self._answer(link, LinkMessageKind.ERROR, id, told)

    def _answer(
        self,
        link: Link,
        kind: LinkMessageKind,
        id: int,
        value: object,
        figures: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if link.descriptor not in self._links:
            return
        try:
            try:
                link.send(kind, id, value, figures)
            except LinkClosed:
                raise
            except Exception as error:  # it cannot be pickled
                words = f"The result of {self._name} cannot be sent: {type(error).__name__}: {error}"
                link.send(LinkMessageKind.ERROR, id, (500, "The model failed", words[:1_000]))
            if link.has_unsent:
                self._poll.modify(link.descriptor, select.EPOLLIN | select.EPOLLOUT)
        except LinkClosed:
            self._drop(link)

    def _flush(self, link: Link) -> None:
        link.flush()
        if not link.has_unsent:
            self._poll.modify(link.descriptor, select.EPOLLIN)

    def _drop(self, link: Link) -> None:
        if self._links.pop(link.descriptor, None) is None:
            return
        self._poll.unregister(link.descriptor)
        self._cancel(lambda item: item.caller is link)
        self._end_streams(lambda stream: stream.link is link)
        if link.descriptor in self._pinned:
            import torch

            runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
            runtime.cudaHostUnregister(self._pinned.pop(link.descriptor))
        link.close()
