"""One request of a client at a CPU process: its slot, its deadline, its answer."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from serving.desk import CLIENT_CLOSED_REQUEST, Desk, Progress, RequestOutcome
from serving.faults import FaultInjection
from serving.kept_answers import MOST_OF_ONE, KeptAnswers, readable
from serving.openai import RequestFault
from serving.overflow import REFUSED, may_overflow, may_pass_on
from serving.protocol import ATTEMPT_HEADER, KEEP_HEADER
from serving.runtime.batching import OFFLINE, ONLINE
from serving.runtime.errors import Problem
from serving.runtime.frames import Frame, Meta
from serving.runtime.front_routes import FrontRoute
from serving.runtime.http_request import HttpRequest
from serving.runtime.jobs import JobPath
from serving.runtime.process_calls import IdlePool, ProcessCall
from serving.runtime.service_metrics import ServiceMetrics

TIMEOUT_HEADERS = ("x-slipway-timeout-ms", "x-envoy-expected-rq-timeout-ms")
PRIORITY_HEADER = "x-slipway-priority"
PROXY_HEADERS = frozenset((ATTEMPT_HEADER, "x-request-id", "x-forwarded-proto"))
"""Of a gateway, which must be told when the work begins (`serving.begun`)."""
GRACE_SECONDS = 2.0
"""How long a handler may go on after its deadline before its process is ended."""


@dataclass(slots=True)
class AcceptedRequest:
    """A request with the findings of the front at its head. `label` is the route that it is counted under."""

    progress: Progress
    label: str = "unknown"
    route: FrontRoute | None = None
    params: dict[str, str] = field(default_factory=dict)
    job: JobPath | None = None


@dataclass(frozen=True)
class AnswerParts:
    """The parts that answers of one service share."""

    desk: Desk
    faults: FaultInjection
    metrics: ServiceMetrics
    pool: IdlePool
    kept: KeptAnswers
    has_groups: Callable[[], bool]
    """Whether some workers of its pool are kept free of requests, so that one of them may take this one's."""

    def record(self, label: str, code: int, progress: Progress, *, broke_off: bool = False) -> None:
        self.desk.record(RequestOutcome(label, code, progress.elapsed, broke_off, progress))


def request_meta(
    route: FrontRoute,
    query: str,
    headers: dict[str, str],
    params: dict[str, str],
    *,
    deadline: float | None = None,
    priority: int = ONLINE,
) -> Meta:
    """Return what a CPU process is told of a request beside its body."""
    return {
        "route": route.number,
        "query": query,
        "headers": headers,
        "params": params,
        "deadline": deadline,
        "priority": priority,
    }


class HttpAnswer:
    """Works on a request until its process is done with it. The client may be gone before."""

    def __init__(self, parts: AnswerParts, request: HttpRequest, route: FrontRoute) -> None:
        self._parts, self._request, self._route = parts, request, route
        self._accepted: AcceptedRequest = request.context
        self._code = CLIENT_CLOSED_REQUEST
        self._is_recorded = self._is_seated = False
        self._seated_at = 0.0
        self._call: ProcessCall | None = None
        self._loop = asyncio.get_running_loop()
        self._delay: asyncio.TimerHandle | None = None
        self._keep_key = request.headers.get(KEEP_HEADER, "")
        self._body = bytearray()
        """Of the answer, where it is kept."""

    def start(self) -> None:
        request = self._request
        try:
            self._timeout = timeout_of(request.headers, self._route.timeout_seconds)
        except Problem as problem:
            self._fail(problem)
            return
        self._deadline = time.monotonic() + self._timeout
        self._timer = self._loop.call_later(self._timeout, self._late)
        request.on_gone = self._gone
        try:
            attempt = request.headers.get(ATTEMPT_HEADER, "1")
            self._parts.desk.ask(
                self._seated,
                is_retried=attempt not in ("", "1"),
                may_overflow=may_overflow(request.headers),
            )
        except RequestFault as fault:
            self._timer.cancel()
            if fault.is_overflow:
                self._record()  # nobody's answer: the books have it as a client's who left
                request.answer_problem(Problem(fault.status, "Overloaded", str(fault)), REFUSED)
                return
            title = "Overloaded" if fault.status == 429 else "Refused"
            passes_on = self._parts.has_groups() and may_pass_on(request.headers)
            extra = REFUSED if fault.status == 429 and passes_on else {}
            self._fail(Problem(fault.status, title, str(fault)), fault.retry_after_seconds, extra)

    def _seated(self) -> None:
        self._is_seated, self._seated_at = True, time.monotonic()
        self._accepted.progress.seated()
        headers = self._request.headers
        if not PROXY_HEADERS.isdisjoint(headers):
            self._request.interim()
        delay, fault = self._parts.faults.draw()
        if delay:
            self._delay = self._loop.call_later(delay, self._work, fault)
        else:
            self._work(fault)

    def _work(self, fault: RequestFault | None) -> None:
        if fault is not None:
            self._fail(Problem(fault.status, "Refused", str(fault)))
            self._loop.call_soon(self._over)
            return
        request = self._request
        meta = request_meta(
            self._route,
            request.query,
            request.headers,
            self._accepted.params,
            deadline=self._deadline,
            priority=OFFLINE if request.headers.get(PRIORITY_HEADER) == "offline" else ONLINE,
        )
        self._call = ProcessCall(self._parts.pool, meta, request.body, self._hear)
        request.on_pause = self._call.pause
        self._call.start()

    def _hear(self, kind: Frame, meta: Meta, body: bytes) -> None:
        request = self._request
        if kind is Frame.PIECE:
            if request.is_over:
                return
            if not request.has_begun:
                head = meta.get("head", {"status": 200, "type": "text/event-stream"})
                self._code = head["status"]
                request.begin(self._code, head["type"], {"cache-control": "no-cache"})
            if body:
                self._read_along(body)
                self._accepted.progress.produced(1)
                request.piece(body)
            if request.is_paused and self._call is not None:
                self._call.pause(True)
            return
        if kind not in (Frame.ANSWER, Frame.END):
            return
        self._parts.metrics.observe(meta, self._accepted.progress)
        if not request.is_over:
            if kind is Frame.ANSWER:
                self._code = meta["status"]
                self._read_along(readable(meta["type"], body) if self._keep_key else b"")
                self._record()
                extra: dict[str, str] = meta.get("headers", {})
                if self._code == 503:
                    extra = extra | {"retry-after": "1"}
                request.answer(self._code, meta["type"], body, extra)
            elif (problem := meta.get("problem")) is not None:
                self._fail(Problem(problem["status"], problem["title"], problem.get("detail", "")))
            else:
                self._record()
                request.end()
        self._over()

    def _read_along(self, body: bytes) -> None:
        if self._keep_key and len(self._body) <= MOST_OF_ONE:
            self._body += body

    def _fail(
        self, problem: Problem, retry_after: int | None = None, extra: Mapping[str, str] | None = None
    ) -> None:
        """Answer with the problem alone, or as the last event of a stream."""
        request = self._request
        if request.is_over:
            return
        if request.has_begun:
            self._record(broke_off=True)
            request.piece(b"event: error\ndata: " + json.dumps(problem.document()).encode() + b"\n\n")
            request.end()
        else:
            self._code = problem.status
            self._record()
            seconds = retry_after or (1 if problem.status == 503 else None)
            told = {} if seconds is None else {"retry-after": str(seconds)}
            request.answer_problem(problem, {**told, **(extra or {})})

    def _gone(self) -> None:
        """The client has left. A handler that does not hear of it still has its deadline."""
        self._keep_key = ""
        self._record()
        self._stop()

    def _late(self) -> None:
        self._fail(Problem(504, "Deadline exceeded", f"It had {self._timeout:g} s."))
        self._stop()
        if self._call is not None and not self._call.is_over:
            self._timer = self._loop.call_later(
                GRACE_SECONDS, self._call.kill, "its request went on long after its deadline"
            )

    def _stop(self) -> None:
        if not self._is_seated:
            self._parts.desk.withdraw(self._seated)
            self._timer.cancel()
        elif self._call is None:
            if self._delay is not None:
                self._delay.cancel()
            self._over()
        else:
            self._call.cancel()
            if self._call.is_over:
                self._over()

    def _over(self) -> None:
        """Its slot is free again."""
        self._timer.cancel()
        if self._is_seated:
            self._is_seated = False
            self._parts.desk.leave(time.monotonic() - self._seated_at)

    def _record(self, *, broke_off: bool = False) -> None:
        """Once, and before the last byte goes out. Begun, and cut off by the client: as it began."""
        if not self._is_recorded:
            self._is_recorded = True
            if self._keep_key:
                request = self._request
                path = f"{request.path}?{request.query}" if request.query else request.path
                code, answer = 502 if broke_off else self._code, bytes(self._body)
                progress = self._accepted.progress
                self._parts.kept.keep(self._keep_key, path, request.body, code, answer, progress)
            self._parts.record(self._accepted.label, self._code, self._accepted.progress, broke_off=broke_off)


def timeout_of(headers: dict[str, str], longest: float, names: Sequence[str] = TIMEOUT_HEADERS) -> float:
    """Seconds. Raises Problem for a header that is no time."""
    for name in names:
        if (given := headers.get(name)) is not None:
            try:
                milliseconds = float(given)
            except ValueError:
                milliseconds = -1.0
            if not 0 < milliseconds < 1e9:
                raise Problem(400, "Invalid request", f"{name} must be milliseconds above 0.")
            longest = min(longest, milliseconds / 1_000)
    return longest
