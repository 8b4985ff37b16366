"""HTTP/1.1 for a service: a connection costs no task, an answer one write.

`HttpServer` owns the connections; an `HttpApplication` is called for each request and answers it by the
request's own methods, at once or later.
"""

import asyncio
import logging
import resource
import socket
from collections import deque
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import httptools

from serving.begun import BEGUN
from serving.runtime.errors import Problem
from serving.runtime.http_request import HttpApplication, HttpRequest, header_lines

log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 65_536
SWALLOWED_BYTES = 262_144
"""A refused request whose body is no longer is read to its end, so that its connection can go on."""
PAUSE_FROM_BYTES = 2**20
"""An answer of which so much waits for a slow client is made no further until it is taken."""
JOINED_UP_TO_BYTES = 65_536
READ_WITHIN_SECONDS = 30.0
"""The head of a request must come within it, and no two parts of its body be further apart."""
WRITE_WITHIN_SECONDS = 60.0
"""A client that takes nothing of its answer for so long is cut off."""
KEEP_ALIVE_SECONDS = 2 * 3_600
"""A gateway must be the one to close idle connections (Envoy: after an hour), or it would now and then send a
request into a connection that is just being closed."""
LINGER_SECONDS = 5.0
"""What a client still sends after a refusal is read for so long: a reset could overtake the refusal."""
LOOK_EVERY_SECONDS = 1.0
BACKLOG = 4_096
MOST_FILES = 2**20
MOST_HEADS = 256
_LINES = {
    one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus if one.value >= 200
}


class HttpServerConnection(asyncio.Protocol):
    """A client's connection: reads its requests and has them answered in the order in which they came."""

    def __init__(self, server: "HttpServer") -> None:
        self.server = server
        self.is_paused = False
        self._loop = server.loop
        self._parser: Any = httptools.HttpRequestParser(self)
        self._reading: HttpRequest | None = None
        self._answering: HttpRequest | None = None
        self._pipelined: deque[HttpRequest] = deque()
        self._target = b""
        self._parts: list[bytes] = []
        self._size = self._limit = 0
        self._has_head = self._is_lingering = False
        self._began_at = self._heard_at = self._taken_at = self._loop.time()
        self._unsent = 0

    # Reading

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self._transport.set_write_buffer_limits(PAUSE_FROM_BYTES)
        self.server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if self._is_lingering:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # no other protocol is spoken here: the request is answered as it is
        except httptools.HttpParserError:
            self._leave(Problem(400, "Malformed request", "It is not HTTP/1.1."))
        else:
            if self._reading is not None and not self._has_head:
                self._size += len(data)
                if self._size > MAX_HEAD_BYTES:
                    self._leave(Problem(431, "Head too large", f"A head may have {MAX_HEAD_BYTES} bytes."))

    def on_message_begin(self) -> None:
        self._reading = HttpRequest(self)
        self._began_at = self._heard_at
        self._target, self._parts, self._size, self._has_head = b"", [], 0, False

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading is not None:
            headers, key = self._reading.headers, name.decode("latin-1").lower()
            text = value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        request = self._reading
        if request is None:
            return
        self._has_head, self._size = True, 0
        request.method = self._parser.get_method().decode()
        request.version = self._parser.get_http_version()
        request.keeps_alive = self._parser.should_keep_alive()
        path, _, query = self._target.partition(b"?")
        if not path.startswith(b"/"):  # absolute, as to a proxy
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
        request.path = (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")
        request.query = query.decode("latin-1")
        told = request.headers.get("content-length", "0")
        length = int(told) if told.isdigit() else 0
        expects = "expect" in request.headers and request.headers["expect"].lower() == "100-continue"
        try:
            self._limit = self.server.application.accept(request)
            if length > self._limit:
                raise _too_large(self._limit)
        except Problem as problem:
            request.refusal, self._limit = problem, SWALLOWED_BYTES
            if length > SWALLOWED_BYTES or expects:
                self._leave(problem)
            return
        if expects and self._answering is None:
            self.write(BEGUN)

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        if (request := self._reading) is None:
            return
        if self._size > self._limit:
            self._leave(request.refusal or _too_large(self._limit))
        elif request.refusal is None:
            self._parts.append(part)

    def on_message_complete(self) -> None:
        request, self._reading = self._reading, None
        if request is None:
            return
        request.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = []
        self._enter(request)

    def _enter(self, request: HttpRequest) -> None:
        if self._answering is None:
            self._start(request)
        else:
            self._pipelined.append(request)
            self._transport.pause_reading()

    def _start(self, request: HttpRequest) -> None:
        self._answering = request
        application = self.server.application
        try:
            if request.refusal is not None:
                application.refuse(request, request.refusal)
            else:
                application.handle(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            request.answer_problem(Problem(500, "Failed", "The worker failed; its log says why."))

    def _leave(self, problem: Problem) -> None:
        """Refuses what is being read and reads no further request; the client gets time to read why."""
        request, self._reading = self._reading or HttpRequest(self), None
        request.keeps_alive, request.refusal = False, problem
        self._is_lingering = True
        self._enter(request)

    # Writing

    def write(self, head: bytes, body: bytes = b"") -> None:
        if len(body) <= JOINED_UP_TO_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def answered(self, request: HttpRequest) -> None:
        """Its last byte was written: the next one's turn."""
        self._answering = None
        self._taken_at = self._loop.time()
        if self._transport.is_closing():
            return
        if not request.keeps_alive:
            if self._is_lingering and self._transport.can_write_eof():
                self._heard_at = self._taken_at
                self._transport.write_eof()
            else:
                self._transport.close()
        elif self._pipelined:
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._answering is None and self._pipelined and not self._transport.is_closing():
            request = self._pipelined.popleft()
            if not self._pipelined:
                self._transport.resume_reading()
            self._start(request)

    def pause_writing(self) -> None:
        self._pause(True)

    def resume_writing(self) -> None:
        self._pause(False)

    def _pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        if self._answering is not None and self._answering.on_pause is not None:
            self._answering.on_pause(is_paused)

    # Leaving

    def connection_lost(self, _: Exception | None) -> None:
        self.server.connections.discard(self)
        if (request := self._answering) is not None:
            request.is_over = True
            gone, request.on_gone, request.on_pause = request.on_gone, None, None
            if gone is not None:
                gone()
        unread = [self._reading] if self._reading is not None and self._has_head else []
        for request in (*self._pipelined, *unread):
            request.is_over = True
            self.server.application.left(request)
        self._answering = self._reading = self._parser = None
        self._pipelined.clear()

    def enforce_timeouts(self, now: float) -> None:
        """Cuts off who does not send, does not take, or has nothing more to say."""
        unsent = self._transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._taken_at = now
        self._unsent = unsent
        if unsent and now - self._taken_at > WRITE_WITHIN_SECONDS:
            self._transport.abort()
        elif self._is_lingering:
            if self._answering is None and now - self._heard_at > LINGER_SECONDS:
                self._transport.abort()
        elif self._reading is not None:
            if now - (self._heard_at if self._has_head else self._began_at) > READ_WITHIN_SECONDS:
                self._leave(Problem(408, "Request timeout", "The request did not come to its end."))
        elif self._answering is None and now - self._heard_at > KEEP_ALIVE_SECONDS:
            self._transport.close()

    def leave(self) -> None:
        """The server stops: ends the connection now, or with the answer that is being made."""
        if self._answering is None and self._reading is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class HttpServer:
    """Connections of one application. `grace_seconds`: how long `stop` waits for open answers."""

    def __init__(self, application: HttpApplication, *, grace_seconds: float = 30.0) -> None:
        self.application = application
        self.connections: set[HttpServerConnection] = set()
        self.is_draining = False
        """Every connection ends with its next answer: gateways learn to leave before connections are closed
        under their hands."""
        self.heads: dict[tuple[int, str, bool], bytes] = {}
        self._grace_seconds = grace_seconds
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, listener: socket.socket) -> None:
        _allow_many_connections()
        self.loop = asyncio.get_running_loop()
        self._enforce_timeouts()
        self._server = await self.loop.create_server(
            lambda: HttpServerConnection(self), sock=listener, backlog=BACKLOG
        )

    async def stop(self) -> None:
        """Takes no connection any more and waits for the answers that are being made; cuts off the rest."""
        self.is_draining = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.leave()
        end = self.loop.time() + self._grace_seconds
        while self.connections and self.loop.time() < end:
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)
        if self._timer is not None:
            self._timer.cancel()

    def add_head(self, status: int, kind: str, keeps_alive: bool) -> bytes:
        """The head of such answers without what is their own; kept for as long as its date holds."""
        line = _LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n".encode()
        common = {"date": formatdate(usegmt=True)} | ({} if keeps_alive else {"connection": "close"})
        head = line + self.application.identity() + header_lines(common | {"content-type": kind})
        if len(self.heads) < MOST_HEADS:
            self.heads[status, kind, keeps_alive] = head
        return head

    def _enforce_timeouts(self) -> None:
        self.heads.clear()
        now = self.loop.time()
        for connection in list(self.connections):
            connection.enforce_timeouts(now)
        self._timer = self.loop.call_later(LOOK_EVERY_SECONDS, self._enforce_timeouts)


def _too_large(limit: int) -> Problem:
    return Problem(413, "Body too large", f"The body may have {limit} bytes.")


def _allow_many_connections() -> None:
    """Raises the soft limit of open files, which is 1,024 on many systems, to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
