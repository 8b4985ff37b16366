"""Server-sent events: `GET .../events` follows something that changes until it ends or the client leaves.

    def events(self, request, *args, **kwargs):
        release = self.get_object()
        return events_response(request, read=partial(moves_after, release.pk), may_go_on=...)

What is followed are rows: each event's id is the place in them, so that a client that comes back with
`Last-Event-ID` misses nothing, whichever process answers it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.http import HttpRequest, StreamingHttpResponse

from common.api.json import dumps
from common.draining import refusing

POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
RECHECK_SECONDS = 10.0
"""How long a right that was taken away may go on being used."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    id: str
    """The place to come back to; never contains a line break."""
    name: str
    data: Any
    last: bool = False
    """Nothing will follow: the stream ends."""

    def encoded(self) -> bytes:
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (self.id.encode(), self.name.encode(), dumps(self.data))


Read = Callable[[str], Sequence[ServerEvent]]
"""The events after the one of that id, in order; the empty id stands before the first."""


def events_response(
    request: HttpRequest,
    *,
    read: Read,
    may_go_on: Callable[[], bool],
    poll_s: float = POLL_SECONDS,
    heartbeat_s: float = HEARTBEAT_SECONDS,
    recheck_s: float = RECHECK_SECONDS,
) -> StreamingHttpResponse:
    """An endless answer (under ASGI). `may_go_on` is asked again every `recheck_s`; False ends the stream."""
    after = request.headers.get("Last-Event-ID", "")[:200]
    return stream_response(_stream(after, read, may_go_on, poll_s, heartbeat_s, recheck_s))


def stream_response(stream: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Answer with encoded events, each as soon as it is there."""
    response = StreamingHttpResponse(stream, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    # Proxies of the nginx kind would hold the events back.
    response["X-Accel-Buffering"] = "no"
    return response


async def _stream(
    after: str,
    read: Read,
    may_go_on: Callable[[], bool],
    poll_s: float,
    heartbeat_s: float,
    recheck_s: float,
) -> AsyncIterator[bytes]:
    sent_at = checked_at = time.monotonic()
    yield b"retry: 2000\n\n"
    while not refusing.is_set():
        if time.monotonic() - checked_at >= recheck_s:
            if not await database_sync_to_async(may_go_on)():
                yield b"event: forbidden\ndata: {}\n\n"
                return
            checked_at = time.monotonic()
        for event in await database_sync_to_async(read)(after):
            yield event.encoded()
            after, sent_at = event.id, time.monotonic()
            if event.last:
                return
        if time.monotonic() - sent_at >= heartbeat_s:
            yield b": still here\n\n"
            sent_at = time.monotonic()
        await asyncio.sleep(poll_s)
