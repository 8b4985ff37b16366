"""One generation request, from its slot to the last byte of its answer."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serving.begun import begin_of, is_retried
from serving.desk import CLIENT_CLOSED_REQUEST, Desk, Progress, RequestOutcome
from serving.engines.base import Engine, EngineError
from serving.faults import FaultInjection
from serving.openai import Call, OpenAiRoute, RequestFault
from serving.overflow import REFUSED, may_overflow

log = logging.getLogger(__name__)

_DONE = b"[DONE]"


def json_response(document: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, status_code=status, headers=headers, media_type="application/json")


def error_response(fault: RequestFault, headers: dict[str, str] | None = None) -> Response:
    extra = dict(headers or {})
    if fault.is_overflow:
        extra |= REFUSED
    if fault.retry_after_seconds is not None:
        extra["retry-after"] = str(fault.retry_after_seconds)
    return json_response(fault.document, status=fault.status, headers=extra)


class Generation(Response):
    """Works on one call and sends its answer.

    The work runs beside the sending, so that a client that reads slowly holds no slot, and one that goes
    away stops the work. The status is decided by the first piece of the answer: a stream that cannot begin
    is an honest error, which a gateway and a canary's judge can see.
    """

    def __init__(
        self,
        call: Call,
        *,
        desk: Desk,
        engine: Engine,
        faults: FaultInjection,
        progress: Progress,
        headers: dict[str, str],
    ) -> None:
        self._call = call
        self._desk, self._engine, self._faults = desk, engine, faults
        self._progress = progress
        self._fields = headers
        self._outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._code = CLIENT_CLOSED_REQUEST
        self._broke_off = False
        self._recorded = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Request(scope).headers
        work = asyncio.create_task(
            self._work(begin_of(scope), is_retried=is_retried(scope), is_overflow=may_overflow(headers))
        )
        gone = asyncio.create_task(_disconnected(receive))
        sending = asyncio.create_task(self._send(work, scope, receive, send))
        try:
            done, _ = await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending in done:
                sending.result()
            else:
                self._code = CLIENT_CLOSED_REQUEST
        finally:
            for task in (sending, gone, work):
                task.cancel()
            await asyncio.gather(sending, gone, work, return_exceptions=True)
            if not self._recorded:
                self._broke_off = self._code == 200  # begun, and cut off by the end of the grace time
                self._record()

    async def _work(self, begin: Callable[[], None], *, is_retried: bool, is_overflow: bool) -> None:
        try:
            async with self._desk.slot(is_retried=is_retried, may_overflow=is_overflow):
                self._progress.seated()
                begin()
                await self._faults.strike()
                if not self._call.stream:
                    self._outbox.put_nowait(await self._engine.answer(self._call, self._progress))
                    return
                async with aclosing(self._engine.stream(self._call, self._progress)) as stream:
                    async for payload in stream:
                        self._outbox.put_nowait(payload)
        finally:
            self._outbox.put_nowait(None)

    async def _send(self, work: "asyncio.Task[None]", scope: Scope, receive: Receive, send: Send) -> None:
        first = await self._outbox.get()
        if first is None:
            fault = await _fault(work) or RequestFault.internal("The engine gave no answer")
            # Nobody's answer: the books have it as a client's who left.
            self._code = CLIENT_CLOSED_REQUEST if fault.is_overflow else fault.status
            self._record()
            await error_response(fault, self._fields)(scope, receive, send)
            return
        self._code = 200
        if not self._call.stream:
            self._record()
            await Response(first, headers=self._fields, media_type="application/json")(scope, receive, send)
            return
        start = Response(
            headers={**self._fields, "cache-control": "no-cache"}, media_type="text/event-stream"
        )
        del start.headers["content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": start.raw_headers})
        payload: bytes | None = first
        while payload is not None:
            await self._send_event(send, payload)
            payload = await self._outbox.get()
        broken = await _fault(work)
        self._broke_off = broken is not None
        self._record()
        if broken is not None:
            await self._send_event(send, json.dumps(broken.document).encode())
        elif not self._has_typed_events:
            await self._send_event(send, _DONE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def _has_typed_events(self) -> bool:
        return self._call.route is OpenAiRoute.RESPONSES

    async def _send_event(self, send: Send, payload: bytes) -> None:
        kind = json.loads(payload).get("type", "error") if self._has_typed_events else ""
        head = f"event: {kind}\n".encode() if kind else b""
        body = head + b"data: " + payload + b"\n\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})

    def _record(self) -> None:
        """Once, and before the last byte goes out: who has an answer finds it counted."""
        self._recorded = True
        self._desk.record(
            RequestOutcome(
                route=self._call.route,
                code=self._code,
                seconds=self._progress.elapsed,
                broke_off=self._broke_off,
                progress=self._progress,
            )
        )


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _fault(work: "asyncio.Task[None]") -> RequestFault | None:
    """Why the work ended, put for the client; None when it ended well."""
    await asyncio.wait({work})
    error = work.exception()
    if error is None or isinstance(error, RequestFault):
        return error
    if isinstance(error, EngineError):
        return RequestFault.internal(str(error))
    log.error("a request failed in the engine", exc_info=error)
    return RequestFault.internal("The engine failed on this request; the worker's log says why")
