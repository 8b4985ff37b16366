"""The front: reads each request's head, finds its route and hands it to an idle CPU process.

It runs none of the service's code. Nothing in it awaits on the way of a request: this is the part of its cost
that every service pays.
"""

import asyncio
import gc
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from math import inf
from typing import Any

from serving.desk import CLIENT_CLOSED_REQUEST, Desk, Progress
from serving.faults import FaultInjection
from serving.jobs.job import QueuedJob
from serving.jobs.queue import JobQueue
from serving.kept_answers import KeptAnswers
from serving.protocol import (
    CHOSEN_BY_HEADER,
    KEEP_HEADER,
    KEPT_PATH,
    PREFIX_HEADER,
    PROFILE_PATH,
    WorkerState,
)
from serving.runtime.batching import OFFLINE
from serving.runtime.errors import PROBLEM_TYPE, Problem
from serving.runtime.frames import Frame, Meta
from serving.runtime.front_routes import API_PREFIX, FrontRoute, FrontRoutes
from serving.runtime.http_answers import (
    GRACE_SECONDS,
    TIMEOUT_HEADERS,
    AcceptedRequest,
    AnswerParts,
    HttpAnswer,
    request_meta,
    timeout_of,
)
from serving.runtime.http_request import HttpRequest
from serving.runtime.jobs import JobPath, JobRoutes, QueuedJobRunner, job_path
from serving.runtime.process_calls import IdlePool, ProcessCall
from serving.runtime.processes import Processes
from serving.runtime.profiles import profiled, seconds_of
from serving.runtime.service_metrics import ServiceMetrics
from serving.worker_command import WorkerCommand

log = logging.getLogger(__name__)

OWN_BODY_BYTES = 65_536
"""The most that the runtime's own pages read, and do not look at."""


class Front:
    """The HttpApplication of a service. `identity`: headers that every answer carries."""

    def __init__(
        self,
        *,
        processes: Processes,
        desk: Desk,
        metrics: ServiceMetrics,
        faults: FaultInjection,
        identity: Callable[[], Mapping[str, str]],
        health: Callable[[], dict[str, Any]],
        expose: Callable[[], bytes],
        jobs: JobQueue,
        place: WorkerCommand,
    ) -> None:
        self._processes, self._desk, self._metrics = processes, desk, metrics
        self._health, self._expose = health, expose
        self._identity = identity
        self._kept = KeptAnswers(desk)
        self._parts = AnswerParts(
            desk, faults, metrics, processes.idle, self._kept, lambda: self.job_runner.group is not None
        )
        self._routes: FrontRoutes | None = None
        self._answering: set[asyncio.Task[None]] = set()
        whose = {"service": place.service, "target": place.deployment}
        self._jobs = JobRoutes(jobs, **whose, version=place.version_label)
        self.job_runner = QueuedJobRunner(
            jobs,
            **whose,
            worker=place.name,
            run=self._run_job,
            is_leaving=lambda: desk.state is not WorkerState.READY,
            is_quiet=lambda: desk.in_flight == 0 and desk.queue_depth == 0,
        )

    def open(self) -> None:
        """All processes are ready."""
        self._routes = FrontRoutes(self._processes.description["routes"])
        has_jobs = any(route.kind == "job" for route in self._routes.listed)
        self.job_runner.start(len(self._processes.job) if has_jobs else 0)
        gc.collect()
        gc.freeze()  # what is there by now stays, and need not be looked at again and again

    async def warm_up(self) -> None:
        """Sends the bodies that the app gave to their handlers. Raises Problem when one is not answered."""
        routes = FrontRoutes(self._processes.description["routes"])
        for number, body in self._processes.description["warm_up"]:
            route = routes.listed[number]
            meta = request_meta(route, "", {"content-type": "application/json"}, {})
            async with asyncio.timeout(route.timeout_seconds):
                status, _, said = await self._asked(self._processes.idle, meta, body.encode("latin-1"))
            if status >= 400:
                raise Problem(500, "Warm-up failed", f"{route.path}: {said.decode(errors='replace')}")

    # HttpApplication

    def identity(self) -> bytes:
        # Connections are the server's business.
        told = (f"{name}: {value}\r\n" for name, value in self._identity().items() if name != "connection")
        return "".join(told).encode("latin-1")

    def accept(self, request: HttpRequest) -> int:
        path, method = request.path, request.method
        routes = self._routes
        if routes is None or (found := routes.exact.get((method, path))) is None:
            if self._is_own(method, path, is_passed_on=PREFIX_HEADER in request.headers):
                return OWN_BODY_BYTES
            found = None
        if found is not None and found.kind == "control":
            if PREFIX_HEADER in request.headers:
                raise Problem(404, "Not found", "This is answered at the worker alone.")
            return found.max_bytes
        headers = request.headers
        chosen_by = "client" if headers.get(CHOSEN_BY_HEADER) == "client" else "gateway"
        progress = Progress(chosen_by=chosen_by, traceparent=headers.get("traceparent", ""))
        accepted = request.context = AcceptedRequest(progress)
        self._metrics.arrived(progress)
        if routes is None or self._desk.state is WorkerState.FAILED:
            raise Problem(503, "Not ready", f"This service is not ready: {self._desk.reason}.")
        if found is None:
            if (job := job_path(path)) is not None:
                found, _ = routes.find("POST", job.path)
                if found.kind == "job":
                    accepted.job, accepted.label = job, found.path
                    return OWN_BODY_BYTES
            found, accepted.params = routes.find(method, path)
        accepted.route, accepted.label = found, found.path
        return found.max_bytes

    def handle(self, request: HttpRequest) -> None:
        accepted: AcceptedRequest | None = request.context
        if accepted is None and request.path == PROFILE_PATH and request.method == "POST":
            self._spawn(self._profile(request))
        elif accepted is None and request.path == KEPT_PATH and request.method == "POST":
            self._tell_kept(request)
        elif accepted is None and (route := self._control_of(request)) is not None:
            self._spawn(self._answer_control(request, route))
        elif accepted is None:
            request.answer(*self._own(request.path))
        elif (job := accepted.job) is not None:
            request.on_gone = partial(_end, self._spawn(self._answer_of_job(request, accepted, job)))
        elif (route := accepted.route) is not None and route.kind == "job":
            self._spawn(self._submit(request, accepted, route))
        elif route is not None:
            HttpAnswer(self._parts, request, route).start()

    def refuse(self, request: HttpRequest, problem: Problem) -> None:
        accepted: AcceptedRequest | None = request.context
        if accepted is not None:
            self._parts.record(accepted.label, problem.status, accepted.progress)
        request.answer_problem(problem)

    def left(self, request: HttpRequest) -> None:
        accepted: AcceptedRequest | None = request.context
        if accepted is not None:
            self._parts.record(accepted.label, CLIENT_CLOSED_REQUEST, accepted.progress)

    # The runtime's own pages

    def _is_own(self, method: str, path: str, *, is_passed_on: bool) -> bool:
        """Clients of a gateway see its OpenAPI alone."""
        if method == "POST" and path in (PROFILE_PATH, KEPT_PATH):
            return self._routes is not None and not is_passed_on
        if method not in ("GET", "HEAD"):
            return False
        if path in ("/openapi.json", f"{API_PREFIX}/openapi.json"):
            return bool(self._processes.description)
        if is_passed_on:
            return False
        return path in ("/healthz", "/metrics") or (path == "/" and self._routes is not None)

    def _own(self, path: str) -> tuple[int, str, bytes]:
        if path == "/healthz":
            status = 200 if self._desk.state is WorkerState.READY else 503
            return status, "application/json", json.dumps(self._health()).encode()
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4; charset=utf-8", self._expose()
        if path == "/":
            from serving.runtime.try_page import PAGE

            return 200, "text/html; charset=utf-8", PAGE
        return 200, "application/json", json.dumps(self._processes.description["openapi"]).encode()

    def _tell_kept(self, request: HttpRequest) -> None:
        told = self._kept.told(request.headers.get(KEEP_HEADER, ""), request.body)
        if told is None:
            wanted = "Ask for digests, or session, after and ended_for."
            request.answer_problem(Problem(400, "Invalid request", wanted))
        else:
            request.answer(200, "application/json", json.dumps(told).encode())

    async def _profile(self, request: HttpRequest) -> None:
        try:
            traces = await profiled(self._processes.gpu, seconds_of(request.query))
        except Problem as problem:
            request.answer_problem(problem)
        else:
            request.answer(200, "application/zip", traces)

    def _control_of(self, request: HttpRequest) -> FrontRoute | None:
        routes = self._routes
        found = routes.exact.get((request.method, request.path)) if routes is not None else None
        return found if found is not None and found.kind == "control" else None

    async def _answer_control(self, request: HttpRequest, route: FrontRoute) -> None:
        deadline = time.monotonic() + route.timeout_seconds
        meta = request_meta(route, request.query, request.headers, {}, deadline=deadline)
        try:
            async with asyncio.timeout(route.timeout_seconds):
                answered = await self._asked(self._processes.idle_jobs, meta, request.body)
        except TimeoutError:
            request.answer_problem(Problem(504, "Deadline passed"))
        else:
            request.answer(*answered)

    # Jobs

    def _spawn(self, answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(answering)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return task

    async def _submit(self, request: HttpRequest, accepted: AcceptedRequest, route: FrontRoute) -> None:
        path = request.path
        try:
            seconds = timeout_of(request.headers, inf, TIMEOUT_HEADERS[:1])
            job, address = await self._jobs.submit(
                path if path.startswith(route.path.partition("{")[0]) else path.removeprefix(API_PREFIX),
                request.query,
                request.headers,
                request.body,
                policy=route.job,
                prefix=request.headers.get(PREFIX_HEADER, ""),
                deadline_seconds=None if seconds == inf else seconds,
            )
        except Problem as problem:
            self.refuse(request, problem)
            return
        self._parts.record(route.path, 202, accepted.progress)
        request.answer(202, "application/json", json.dumps(job).encode(), {"location": address})

    async def _answer_of_job(self, request: HttpRequest, accepted: AcceptedRequest, asked: JobPath) -> None:
        prefix = request.headers.get(PREFIX_HEADER, "")
        try:
            job = await self._jobs.find(asked)
            if request.method == "GET" and asked.below == "events":
                self._parts.record(accepted.label, 200, accepted.progress)
                await self._follow(job, request, prefix)
                return
            status, kind, told = await self._jobs.ask(job, request.method, asked.below, prefix=prefix)
        except Problem as problem:
            self.refuse(request, problem)
            return
        self._parts.record(accepted.label, status, accepted.progress)
        request.answer(status, kind, json.dumps(told).encode() if isinstance(told, dict) else told)

    async def _follow(self, job: QueuedJob, request: HttpRequest, prefix: str) -> None:
        request.begin(200, "text/event-stream", {"cache-control": "no-cache"})
        last: dict[str, Any] = {}
        async for last in self._jobs.follow(job, prefix=prefix):
            if not request.is_paused:  # for a slow client the last one is enough
                request.piece(b"data: " + json.dumps(last).encode() + b"\n\n")
                last = {}
        if last:
            request.piece(b"data: " + json.dumps(last).encode() + b"\n\n")
        request.end()

    async def _run_job(
        self, job: QueuedJob, body: bytes, told: Callable[[float, str], None], seconds: float
    ) -> tuple[int, str, bytes]:
        """On a process for jobs; status, type and body of its answer. Cancelling cancels the handler."""
        assert self._routes is not None  # noqa: S101 - it runs since they are known
        route, params = self._routes.find("POST", job.path)
        deadline = time.monotonic() + seconds
        meta = request_meta(route, job.query, dict(job.headers), params, deadline=deadline, priority=OFFLINE)
        return await self._asked(self._processes.idle_jobs, meta, body, told)

    async def _asked(
        self, pool: IdlePool, meta: Meta, body: bytes, told: Callable[[float, str], None] = lambda *_: None
    ) -> tuple[int, str, bytes]:
        """The answer of a CPU process, for who can wait for it."""
        answered: asyncio.Future[tuple[int, str, bytes]] = asyncio.get_running_loop().create_future()

        def hear(kind: Frame, meta: Meta, said: bytes) -> None:
            if kind is Frame.PROGRESS:
                told(meta["progress"], meta["message"])
            if kind not in (Frame.ANSWER, Frame.END):
                return
            self._metrics.observe(meta)
            if answered.done():
                return
            if kind is Frame.ANSWER:
                answered.set_result((meta["status"], meta["type"], said))
            elif (problem := meta.get("problem")) is not None:
                answered.set_result((problem["status"], PROBLEM_TYPE, json.dumps(problem).encode()))
            else:
                answered.set_result((200, "", b""))

        call = ProcessCall(pool, meta, body, hear)
        call.start()
        try:
            return await answered
        except asyncio.CancelledError:
            call.cancel()
            late = "its work went on after it was cancelled"
            asyncio.get_running_loop().call_later(GRACE_SECONDS, call.kill, late)
            raise


def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
