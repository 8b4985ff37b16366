"""The front: owns the clients' connections and hands each request to a CPU process with nothing else to do.

Plain ASGI without a framework: this is the part of a request's cost that every service pays.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from serving.begun import begin_of, is_retried
from serving.desk import CLIENT_CLOSED_REQUEST, Desk, Outcome, Progress
from serving.faults import FaultInjection
from serving.openai import RequestFault
from serving.protocol import CHOSEN_BY_HEADER, PREFIX_HEADER, WorkerState
from serving.runtime.api import Problem
from serving.runtime.asgi import (
    PROBLEM_TYPE,
    ClientLeft,
    Headers,
    Receive,
    Send,
    begin,
    disconnected,
    read_body,
    reply,
    reply_problem,
    send_events,
)
from serving.runtime.batching import OFFLINE, ONLINE
from serving.runtime.frames import Frame
from serving.runtime.front_routes import FrontRoute, Routes
from serving.runtime.jobs import Asked, Jobs
from serving.runtime.processes import Child, Processes
from serving.runtime.service_metrics import ServiceMetrics

log = logging.getLogger(__name__)

TIMEOUT_HEADERS = ("x-slipway-timeout-ms", "x-envoy-expected-rq-timeout-ms")
API_PREFIX = "/v1"
PRIORITY_HEADER = "x-slipway-priority"
PROXY_HEADERS = ("x-envoy-attempt-count", "x-request-id", "x-forwarded-proto")
"""Of a gateway, which must be told when the work begins (`serving.begun`)."""
GRACE_SECONDS = 2.0
"""How long a handler may go on after its deadline before its process is ended."""
PAUSE_FROM_BYTES = 2**20
"""So much of a stream waits here for a slow client; then its process waits, too."""


class Exchange:
    """One request in a CPU process: what it was asked, and its frames as they come."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.frames: asyncio.Queue[tuple[Frame, dict[str, Any], bytes]] = asyncio.Queue()
        self.waiting_bytes = 0
        self.is_over = asyncio.Event()
        self.child: Child | None = None

    def on_frame(self, kind: Frame, meta: dict[str, Any], body: bytes) -> None:
        if meta.get("id") != self.number:
            return
        self.waiting_bytes += len(body)
        if self.waiting_bytes > PAUSE_FROM_BYTES and self.child is not None:
            self.child.pause(True)
        self.frames.put_nowait((kind, meta, body))
        if kind in (Frame.ANSWER, Frame.END):
            self.is_over.set()

    def on_end(self, reason: str) -> None:
        """Its process is gone."""
        problem = Problem(500, "Process ended", f"The process that worked on this request {reason}.")
        self.frames.put_nowait((Frame.END, {"problem": problem.document()}, b""))
        self.is_over.set()

    async def next(self) -> tuple[Frame, dict[str, Any], bytes]:
        kind, meta, body = await self.frames.get()
        if self.waiting_bytes > PAUSE_FROM_BYTES >= self.waiting_bytes - len(body) and self.child is not None:
            self.child.pause(False)
        self.waiting_bytes -= len(body)
        return kind, meta, body


class Front:
    """The ASGI application. `identity`: headers that every answer carries."""

    def __init__(
        self,
        *,
        processes: Processes,
        desk: Desk,
        metrics: ServiceMetrics,
        faults: FaultInjection,
        identity: Callable[[], Headers],
        health: Callable[[], dict[str, Any]],
        expose: Callable[[], bytes],
    ) -> None:
        self._processes, self._desk, self._metrics, self._faults = processes, desk, metrics, faults
        self._identity, self._health, self._expose = identity, health, expose
        self._routes: Routes | None = None
        self._numbers = itertools.count(1)
        self._held: set[asyncio.Task[Any]] = set()
        self.jobs = Jobs(self._run_job)

    def open(self) -> None:
        """All processes are ready."""
        self._routes = Routes(self._processes.description["routes"])

    async def warm_up(self) -> None:
        """Sends the bodies that the app gave to their handlers. Raises Problem when one is not answered."""
        for number, body in self._processes.description["warm_up"]:
            route = Routes(self._processes.description["routes"]).listed[number]
            exchange = Exchange(next(self._numbers))
            headers = {"content-type": "application/json"}
            async with self._child(exchange, self._processes.take) as child:
                self._ask(child, exchange, route, b"", headers, body.encode("latin-1"), {}, _never(), ONLINE)
                async with asyncio.timeout(route.timeout_seconds):
                    while True:
                        kind, meta, said = await exchange.next()
                        if kind is Frame.ANSWER and meta["status"] >= 400:
                            raise Problem(
                                500, "Warm-up failed", f"{route.path}: {said.decode(errors='replace')}"
                            )
                        if "problem" in meta:
                            raise Problem(500, "Warm-up failed", f"{route.path}: {meta['problem']}")
                        if kind in (Frame.ANSWER, Frame.END):
                            break

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if (own := self._own(method, path, is_passed_on=PREFIX_HEADER in headers)) is not None:
            status, kind, body = own
            await reply(send, status, kind, body, self._identity())
            return
        chosen_by = "client" if headers.get(CHOSEN_BY_HEADER) == "client" else "gateway"
        progress = Progress(chosen_by=chosen_by, traceparent=headers.get("traceparent", ""))
        self._metrics.arrived(progress)
        label = "unknown"
        try:
            if self._routes is None or self._desk.state is WorkerState.FAILED:
                raise Problem(503, "Not ready", f"This service is not ready: {self._desk.reason}.")
            path = self._without_prefix(method, path)
            if (job := self.jobs.find(path)) is not None:
                label = job.path
                below = path[len(job.address) + 1 :]
                if method == "GET" and below == "events":
                    self._record(label, 200, progress)
                    await send_events(send, self.jobs.follow(job), receive, self._identity())
                    return
                status, kind, told = self.jobs.ask(job, method, below)
                self._record(label, status, progress)
                answer = json.dumps(told).encode() if isinstance(told, dict) else told
                await reply(send, status, kind, answer, self._identity())
                return
            route, params = self._routes.find(method, path)
            label = route.path
            body = await read_body(receive, headers, route.max_bytes)
        except Problem as problem:
            await self._refuse(send, problem, label, progress)
            return
        except ClientLeft:
            self._record(label, CLIENT_CLOSED_REQUEST, progress)
            return
        if route.kind == "job":
            asked: Asked = (route, scope["query_string"], headers, body, params)
            job = self.jobs.submit(route.path, asked, key=headers.get("idempotency-key", ""))
            self._record(label, 202, progress)
            accepted = json.dumps(job.document()).encode()
            await reply(send, 202, "application/json", accepted, self._identity() | {"location": job.address})
            return
        await _Answer(self, scope, send, progress, route).run(receive, headers, body, params)

    def _without_prefix(self, method: str, path: str) -> str:
        """Every route is found below /v1, too, which is all that gateways pass on of other engines."""
        if self._routes is None or not path.startswith(f"{API_PREFIX}/"):
            return path
        try:
            self._routes.find(method, path)
        except Problem:
            return path[len(API_PREFIX) :]
        return path

    def _own(self, method: str, path: str, *, is_passed_on: bool) -> tuple[int, str, bytes] | None:
        """The runtime's own pages. Clients of a gateway see its OpenAPI alone."""
        if method not in ("GET", "HEAD"):
            return None
        if path in ("/openapi.json", f"{API_PREFIX}/openapi.json") and self._processes.description:
            return 200, "application/json", json.dumps(self._processes.description["openapi"]).encode()
        if is_passed_on:
            return None
        if path == "/healthz":
            status = 200 if self._desk.state is WorkerState.READY else 503
            return status, "application/json", json.dumps(self._health()).encode()
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4; charset=utf-8", self._expose()
        if path == "/" and self._routes is not None and ("GET", "/") not in self._routes._exact:
            from serving.runtime.try_page import PAGE

            return 200, "text/html; charset=utf-8", PAGE
        return None

    async def _refuse(self, send: Send, problem: Problem, label: str, progress: Progress) -> None:
        self._record(label, problem.status, progress)
        await reply_problem(send, problem, self._identity())

    def _record(self, label: str, code: int, progress: Progress, *, broke_off: bool = False) -> None:
        self._desk.record(
            Outcome(route=label, code=code, seconds=progress.elapsed, broke_off=broke_off, progress=progress)
        )

    @contextlib.asynccontextmanager
    async def _child(self, exchange: Exchange, take: Callable[[], Any]) -> AsyncIterator[Child]:
        """A CPU process for one exchange. It is free again when the exchange is over, however it is left."""
        child: Child = await take()
        exchange.child = child
        before = child.on_end
        child.on_frame = exchange.on_frame

        def ended(reason: str) -> None:
            before(reason)
            exchange.on_end(reason)

        child.on_end = ended
        starts = child.starts
        try:
            yield child
        finally:
            if not exchange.is_over.is_set():
                child.send(Frame.CANCEL, {"id": exchange.number})
            child.pause(False)
            task = asyncio.ensure_future(exchange.is_over.wait())
            self._held.add(task)
            try:
                await asyncio.shield(task)
            finally:
                self._held.discard(task)
                child.on_end = before
                if child.starts == starts and child.is_ready.is_set():
                    self._processes.free(child)

    def _ask(
        self,
        child: Child,
        exchange: Exchange,
        route: FrontRoute,
        query: bytes,
        headers: Headers,
        body: bytes,
        params: Mapping[str, str],
        deadline: float,
        priority: int,
    ) -> None:
        meta = {
            "id": exchange.number,
            "route": route.number,
            "method": route.method,
            "path": route.path,
            "query": query.decode("latin-1"),
            "headers": headers,
            "params": params,
            "deadline": None if deadline == _never() else deadline,
            "priority": priority,
        }
        child.send(Frame.REQUEST, meta, body)

    async def _run_job(self, asked: Asked, told: Callable[[float, str], None]) -> tuple[int, str, bytes]:
        """On a process for jobs; status, type and body of its answer. Cancelling cancels the handler."""
        route, query, headers, body, params = asked
        exchange = Exchange(next(self._numbers))
        async with self._child(exchange, self._take_for_job) as child:
            self._ask(child, exchange, route, query, headers, body, params, _never(), OFFLINE)
            while True:
                kind, meta, said = await exchange.next()
                if kind is Frame.PROGRESS:
                    told(meta["progress"], meta["message"])
                elif kind is Frame.ANSWER:
                    self._metrics.observe(meta)
                    return meta["status"], meta["type"], said
                elif kind is Frame.END:
                    return meta["problem"]["status"], PROBLEM_TYPE, json.dumps(meta["problem"]).encode()

    async def _take_for_job(self) -> Child:
        while not self._processes.idle_jobs:
            await asyncio.sleep(0.02)
        return self._processes.idle_jobs.pop()


class _Answer:
    """One request with a slot, until its process is done with it. The client may be gone before."""

    def __init__(
        self, front: Front, scope: dict[str, Any], send: Send, progress: Progress, route: FrontRoute
    ) -> None:
        self._front, self._scope, self._send = front, scope, send
        self._progress, self._route = progress, route
        self._code = CLIENT_CLOSED_REQUEST
        self._is_recorded = False
        self._has_begun = False
        self._is_answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, receive: Receive, headers: Headers, body: bytes, params: Mapping[str, str]) -> None:
        work = asyncio.create_task(self._work(headers, body, params))
        self._front._held.add(work)
        work.add_done_callback(self._front._held.discard)
        gone = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait({work, gone, self._is_answered}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            gone.cancel()
            if not work.done() and not self._is_answered.done():
                work.cancel()

    async def _work(self, headers: Headers, body: bytes, params: Mapping[str, str]) -> None:
        front, exchange = self._front, Exchange(next(self._front._numbers))
        try:
            timeout = _timeout(headers, self._route.timeout_seconds)
            deadline = time.monotonic() + timeout
            priority = OFFLINE if headers.get(PRIORITY_HEADER) == "offline" else ONLINE
            async with front._desk.slot(is_retried=is_retried(self._scope)):
                self._progress.seated()
                if any(name in headers for name in PROXY_HEADERS):
                    begin_of(self._scope)()
                await front._faults.strike()
                async with front._child(exchange, front._processes.take) as child:
                    front._ask(
                        child,
                        exchange,
                        self._route,
                        self._scope["query_string"],
                        headers,
                        body,
                        params,
                        deadline,
                        priority,
                    )
                    try:
                        async with asyncio.timeout_at(asyncio.get_running_loop().time() + timeout):
                            await self._pass_on(exchange)
                    except TimeoutError:
                        child.send(Frame.CANCEL, {"id": exchange.number})
                        await self._fail(Problem(504, "Deadline exceeded", f"It had {timeout:g} s."))
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(GRACE_SECONDS):
                                await exchange.is_over.wait()
                        if not exchange.is_over.is_set():
                            child.kill("its request went on long after its deadline")
        except RequestFault as fault:
            await self._fail(
                Problem(fault.status, "Overloaded" if fault.status == 429 else "Refused", str(fault)),
                fault.retry_after_seconds,
            )
        except Problem as problem:
            await self._fail(problem)
        finally:
            self._record()

    async def _pass_on(self, exchange: Exchange) -> None:
        front = self._front
        while True:
            kind, meta, body = await exchange.next()
            if kind is Frame.ANSWER:
                self._code = meta["status"]
                front._metrics.observe(meta, self._progress)
                self._record()
                extra = meta.get("headers", {}) | ({"retry-after": "1"} if self._code == 503 else {})
                await reply(self._send, self._code, meta["type"], body, front._identity() | extra)
                break
            if kind is Frame.PIECE:
                if not self._has_begun:
                    head = meta.get("head", {"status": 200, "type": "text/event-stream"})
                    self._has_begun, self._code = True, head["status"]
                    extra = {"cache-control": "no-cache"}
                    await begin(self._send, self._code, head["type"], front._identity() | extra)
                if body:
                    self._progress.produced(1)
                    await self._send({"type": "http.response.body", "body": body, "more_body": True})
            elif kind is Frame.END:
                front._metrics.observe(meta, self._progress)
                problem = meta.get("problem")
                if problem is not None:
                    told = Problem(problem["status"], problem["title"], problem.get("detail", ""))
                    await self._fail(told)
                else:
                    self._record()
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                break
        self._answered()

    async def _fail(self, problem: Problem, retry_after: int | None = None) -> None:
        """As an answer of its own, or as the last event of a stream."""
        if self._has_begun:
            self._record(broke_off=True)
            event = b"event: error\ndata: " + json.dumps(problem.document()).encode() + b"\n\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": False})
        else:
            self._code = problem.status
            self._record()
            seconds = retry_after or (1 if problem.status == 503 else None)
            extra = {} if seconds is None else {"retry-after": str(seconds)}
            await reply_problem(self._send, problem, self._front._identity() | extra)
        self._answered()

    def _answered(self) -> None:
        if not self._is_answered.done():
            self._is_answered.set_result(None)

    def _record(self, *, broke_off: bool = False) -> None:
        """Once, and before the last byte goes out."""
        if not self._is_recorded:
            self._is_recorded = True
            # Begun, and cut off: by the client, or by the end of the grace time.
            self._front._record(self._route.path, self._code, self._progress, broke_off=broke_off)


def _never() -> float:
    return float("inf")


def _timeout(headers: Headers, longest: float) -> float:
    """Seconds. Raises Problem for a header that is no time."""
    for name in TIMEOUT_HEADERS:
        if (given := headers.get(name)) is not None:
            try:
                milliseconds = float(given)
            except ValueError:
                milliseconds = -1.0
            if not 0 < milliseconds < 1e9:
                raise Problem(400, "Invalid request", f"{name} must be milliseconds above 0.")
            longest = min(longest, milliseconds / 1_000)
    return longest
