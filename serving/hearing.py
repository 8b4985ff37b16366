"""Receiving workers' heartbeats: the node agent on its socket, the relay of a cluster on its port."""

import asyncio
import socket
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import uvicorn

from serving.fields import ProtocolError
from serving.protocol import LOST_AFTER_SECONDS, Heartbeat, decode_heartbeat

MAX_HEARTBEAT_BYTES = 64_000


class LatestHeartbeats:
    """The last heartbeat of each worker. A worker that is silent for 5 s is left out."""

    def __init__(self, *, most: int, place: str) -> None:
        """`most`: workers; `place`: who has them, for people."""
        self._most = most
        self._place = place
        self._last: dict[str, tuple[float, Heartbeat]] = {}

    def keep(self, heartbeat: Heartbeat) -> bool:
        """Whether its state is another one than before: worth telling at once. Raises ProtocolError."""
        self._forget_silent()
        before = self._last.get(heartbeat.worker)
        if before is None and len(self._last) >= self._most:
            raise ProtocolError(f"{self._place} has {self._most} workers already")
        self._last[heartbeat.worker] = (time.monotonic(), heartbeat)
        return before is None or before[1].state is not heartbeat.state

    def last_of(self, worker: str) -> Heartbeat | None:
        said = self._last.get(worker)
        return said[1] if said else None

    def forget(self, worker: str) -> None:
        self._last.pop(worker, None)

    def __iter__(self) -> Iterator[Heartbeat]:
        """Yield the heartbeats of those that are not silent."""
        self._forget_silent()
        return iter([heartbeat for _, heartbeat in self._last.values()])

    def _forget_silent(self) -> None:
        limit = time.monotonic() - LOST_AFTER_SECONDS
        for worker in [worker for worker, (at, _) in self._last.items() if at < limit]:
            del self._last[worker]


class TooLong(ProtocolError):
    """More than any heartbeat has."""


async def heartbeat_of(receive: Any) -> Heartbeat:
    """The body of an ASGI request. Raises ProtocolError, TooLong before all of it was read."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_HEARTBEAT_BYTES:
            raise TooLong(f"a heartbeat has at most {MAX_HEARTBEAT_BYTES} bytes")
        if not message.get("more_body"):
            return decode_heartbeat(body)


async def answer(send: Any, status: int, content: bytes, kind: bytes = b"text/plain") -> None:
    head = [] if status == 204 else [(b"content-length", b"%d" % len(content)), (b"content-type", kind)]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": content})


async def hear_until_stopped(app: Any, listener: socket.socket, *beside: Coroutine[Any, Any, None]) -> None:
    """Serve the ASGI application until SIGTERM or SIGINT, with what runs beside it."""
    config = uvicorn.Config(
        app,
        access_log=False,
        lifespan="off",
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=3_600,
        ws="none",
    )
    background = [asyncio.create_task(one) for one in beside]
    await uvicorn.Server(config).serve(sockets=[listener])
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
