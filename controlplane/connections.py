"""How long the console waits for a client that has connected.

`uvicorn --http controlplane.connections:BoundedProtocol`. uvicorn itself bounds only the pause between two
requests of a connection (5 s).
"""

import asyncio
import json
from asyncio import TimerHandle
from enum import Enum
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from common.draining import draining
from controlplane.env import env

LEAST_BYTES_PER_SECOND = 500
"""Of a request's body, over `idle_seconds`. Who sends a byte now and then holds a connection for good."""
TOO_SLOW = json.dumps(
    {
        "type": "about:blank",
        # A connection without a whole request has no language.
        "title": "Request timeout",
        "status": 408,
        "detail": "The request came too slowly: send its header and its body without long pauses.",
    }
).encode()
REQUEST_TIMEOUT = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/problem+json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
) % (len(TOO_SLOW), TOO_SLOW)


class AwaitedPart(Enum):
    """Part of a request that the client has yet to send."""

    HEADER = "header"
    BODY = "body"
    NOTHING = "nothing"


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose client sends no whole header within `header_seconds`, a body too slowly, or
    takes nothing of its answer for `idle_seconds`.

    The answer itself may take as long as it does, and a websocket is none of this any more.
    """

    header_seconds: ClassVar[float] = env.client_header_seconds
    idle_seconds: ClassVar[float] = env.client_idle_seconds

    _awaited = AwaitedPart.HEADER
    _timer: TimerHandle | None = None
    _stalled: TimerHandle | None = None
    _has_sent = False
    _body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set(self.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._awaited = AwaitedPart.NOTHING
        self._unset()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._has_sent = True
        self._body_bytes += len(data)
        before = self._awaited
        super().data_received(data)
        if self._awaited is before:
            return
        self._unset()
        if self._awaited is AwaitedPart.HEADER:
            self._set(self.header_seconds)
        elif self._awaited is AwaitedPart.BODY:
            self._body_bytes = 0
            self._set(self.idle_seconds)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._awaited = AwaitedPart.HEADER

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._awaited = AwaitedPart.BODY
        if draining.is_set() and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._awaited = AwaitedPart.NOTHING

    def handle_websocket_upgrade(self) -> None:
        self._awaited = AwaitedPart.NOTHING
        self._unset()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _set(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._is_late)

    def _unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        self._timer = None
        if self._awaited is AwaitedPart.NOTHING or self.transport.is_closing():
            return
        if self._awaited is AwaitedPart.BODY and (
            # What we do not read, the client cannot send.
            self.flow.read_paused or self._body_bytes >= LEAST_BYTES_PER_SECOND * self.idle_seconds
        ):
            self._body_bytes = 0
            self._set(self.idle_seconds)
            return
        answers = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        # A connection opened in advance would take it for the answer to what it sends next.
        if not self._has_sent or answers:
            self.transport.abort()
        else:
            self.transport.write(REQUEST_TIMEOUT)
            self.transport.close()
