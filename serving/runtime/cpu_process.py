"""A CPU process: one request at a time, from the front's socket to the handler's answer.

While a handler waits for a model, this process watches the front's socket as well: a client that leaves ends
the handler. Sync handlers run right here; async ones on a loop that lives as long as the process.
"""

import asyncio
import gc
import json
import logging
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from serving.runtime.board import ProcessBoard
from serving.runtime.children import ChildOrder, tell
from serving.runtime.context import RequestContext, context, runtime
from serving.runtime.errors import PROBLEM_TYPE, Cancelled, Problem
from serving.runtime.frames import Frame, FrameReader, Meta, pack_frame
from serving.runtime.gpu_model import GpuModel, ModelHandle
from serving.runtime.handler_request import Request, Response
from serving.runtime.handlers import RouteHandler, read_query
from serving.runtime.loaded_app import LoadedApp
from serving.runtime.models import ModelHandles

log = logging.getLogger(__name__)
READ_BYTES = 65_536
"""More would be mapped and unmapped for each request."""


def run(order: ChildOrder, channel: socket.socket) -> None:
    serve_loaded(LoadedApp(order.path), order, channel)


def serve_loaded(loaded: LoadedApp, order: ChildOrder, channel: socket.socket) -> None:
    tell(channel, {"described": loaded.description})
    CpuProcess(loaded, channel, order).serve()


class CpuProcess:
    """The loop; a Runtime for the handlers in it."""

    def __init__(self, loaded: LoadedApp, channel: socket.socket, order: ChildOrder) -> None:
        self._handlers = loaded.handlers
        self._channel = channel
        self._cell = ProcessBoard(order.board).cells[order.cell]
        self._counts = int(order.cell < order.online)
        self._order = order
        self._models = ModelHandles({}, ProcessBoard(order.board), arena_bytes=0)
        self._reader = FrameReader()
        self._queued: list[tuple[Frame, Meta, bytes]] = []
        self._number = -1
        self._indicated: dict[str, float] = {}
        self._traced_since = 0
        """Of the request that is worked on: when its handler began; 0: nobody traces it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        runtime.set(self)

    def handle(self, model: type[GpuModel]) -> ModelHandle:
        return self._models.handle(model)

    def indicate(self, name: str, value: float) -> None:
        self._indicated[name] = self._indicated.get(name, 0.0) + value

    def called(self, method: str, sent_at: int, queued: int, worked: int, batch_size: int) -> None:
        self._models.calls.append((method, sent_at, queued, worked, batch_size))

    def wait_for(self, descriptor: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the deadline of the request has passed")
            watched = [descriptor, self._channel.fileno()]
            readable, _, _ = select.select(watched, [], [], min(left, 3_600.0))
            if descriptor in readable:
                return
            if readable and self._is_cancelled():
                raise Cancelled

    def serve(self) -> None:
        while True:
            kind, meta, body = self._next()
            if kind is Frame.REQUEST:
                self._work(meta, body)
            elif kind is Frame.STATE:
                self._models = ModelHandles(
                    meta["models"],
                    self._models.board,
                    arena_bytes=self._order.arena_bytes,
                    front=self._channel.fileno(),
                    interrupted=self._is_cancelled,
                )
                gc.collect()
                gc.freeze()  # what is there by now stays, and need not be looked at again and again
                tell(self._channel, {"ready": {}})

    def _next(self) -> tuple[Frame, Meta, bytes]:
        while not self._queued:
            data = self._channel.recv(READ_BYTES)
            if not data:
                raise SystemExit(0)
            self._queued += self._reader.feed(data)
        return self._queued.pop(0)

    def _is_cancelled(self) -> bool:
        """Reads what the front says while a request is worked on."""
        data = self._channel.recv(READ_BYTES)
        if not data:
            raise SystemExit(0)
        self._queued += self._reader.feed(data)
        is_for_us = [kind is Frame.CANCEL and meta["id"] == self._number for kind, meta, _ in self._queued]
        return any(is_for_us)

    def _work(self, meta: Meta, body: bytes) -> None:
        self._number = meta["id"]
        handler = self._handlers[meta["route"]]
        self._cell.load, self._cell.since_ns = self._counts, time.monotonic_ns()
        context.set(
            RequestContext(
                meta["deadline"] if meta["deadline"] is not None else float("inf"), meta["priority"]
            )
        )
        self._indicated.clear()
        self._models.calls.clear()
        self._traced_since = self._cell.since_ns if "traceparent" in meta["headers"] else 0
        try:
            request = Request(
                handler.route.method, handler.route.path, body, meta["headers"], read_query(meta["query"]),
                meta["params"],
            )  # fmt: skip
            arguments = handler.arguments(request)
            if handler.takes_progress:
                arguments["progress"] = self._progress
            if handler.route.kind == "stream":
                self._stream(handler, arguments)
            else:
                self._answer(handler.answer(self._call(handler, arguments)))
        except Problem as problem:
            self._problem(problem)
        except Cancelled:
            self._problem(Problem(499, "Client closed request"))
        except Exception as error:
            log.exception("%s %s failed", handler.route.method, handler.route.path)
            what = f"{handler.function.__name__} raised {type(error).__name__}"
            self._problem(Problem(500, "The handler failed", f"{what}; the service's log says where."))
        finally:
            self._cell.load = self._cell.since_ns = 0

    def _call(self, handler: RouteHandler, arguments: Meta) -> Any:
        if handler.is_async:
            return self._until_done(handler.function(**arguments))
        return handler.function(**arguments)

    def _until_done(self, coroutine: Any) -> Any:
        loop = self._loop = self._loop or asyncio.new_event_loop()

        async def watched() -> Any:
            task = asyncio.ensure_future(coroutine)
            loop.add_reader(self._channel.fileno(), lambda: self._is_cancelled() and task.cancel())
            try:
                return await task
            except asyncio.CancelledError:
                raise Cancelled from None
            finally:
                loop.remove_reader(self._channel.fileno())

        return loop.run_until_complete(watched())

    def _stream(self, handler: RouteHandler, arguments: Meta) -> None:
        """The headers go with the first piece: what fails before it is an honest error."""
        pieces = handler.function(**arguments)
        head: Meta | None = {"status": 200, "type": handler.route.media_type or "text/event-stream"}
        step: Callable[[], Any]
        step = partial(self._step_async, pieces) if handler.is_async else pieces.__next__
        broken: Problem | None = None
        try:
            while True:
                try:
                    value = step()
                except (StopIteration, StopAsyncIteration):
                    break
                self._check_cancelled()
                self._send(Frame.PIECE, {"head": head} if head else {}, handler.piece(value))
                head = None
        except Exception as error:
            if head is not None:
                raise
            if isinstance(error, Problem):
                broken = error
            else:
                log.exception("a stream of %s broke off", handler.route.path)
                what = f"It raised {type(error).__name__} in the middle."
                broken = Problem(500, "The handler failed", what)
        finally:
            if not handler.is_async:
                pieces.close()
        if head is not None:
            self._send(Frame.PIECE, {"head": head})
        self._send(Frame.END, self._figures() | ({"problem": broken.document()} if broken else {}))

    def _step_async(self, pieces: Any) -> Any:
        async def step() -> Any:
            return await anext(pieces)

        return self._until_done(step())

    def _check_cancelled(self) -> None:
        self._channel.setblocking(False)
        try:
            is_cancelled = self._is_cancelled()
        except BlockingIOError:
            return
        finally:
            self._channel.setblocking(True)
        if is_cancelled:
            raise Cancelled

    def _progress(self, done: float, message: str = "") -> None:
        """Report progress of a job's handler; raises Cancelled when the job was cancelled."""
        self._check_cancelled()
        self._send(
            Frame.PROGRESS, {"progress": max(0.0, min(1.0, float(done))), "message": str(message)[:500]}
        )

    # To the front

    def _figures(self) -> Meta:
        figures: Meta = {}
        if self._models.calls:
            figures["calls"] = self._models.calls
        if self._indicated:
            figures["indicated"] = self._indicated
        if self._traced_since:
            figures["work"] = (self._order.name, self._traced_since, time.monotonic_ns())
        return figures

    def _answer(self, response: Response) -> None:
        body = response.body.encode() if isinstance(response.body, str) else response.body
        headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
        answer = {"status": response.status, "type": response.media_type}
        self._send(Frame.ANSWER, self._figures() | answer | ({"headers": headers} if headers else {}), body)

    def _problem(self, problem: Problem) -> None:
        answer = {"status": problem.status, "type": PROBLEM_TYPE}
        self._send(Frame.ANSWER, self._figures() | answer, json.dumps(problem.document()).encode())

    def _send(self, kind: Frame, meta: Meta, body: bytes = b"") -> None:
        self._channel.sendall(pack_frame(kind, meta | {"id": self._number}, body))
