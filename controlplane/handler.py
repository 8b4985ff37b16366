"""How Django answers a request behind an ASGI server: in one thread of a pool, all of its middleware too.

Django's own handler goes to a thread and back for every middleware that is written for threads, and makes
that thread anew for each request, with a connection to the database of its own: more than a small answer
takes itself. Here a request takes one way there and one back, and threads keep their connections.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.urls import set_script_prefix

THREADS = 40
"""Requests at a time."""
SPARE_CONNECTIONS = 8
"""Of the pool's, for what a web process does beside requests: sockets, health, the parts of Home."""

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Answer = HttpResponse | StreamingHttpResponse


def _threads() -> int:
    """Return so many threads that no request waits for a connection that another request holds."""
    pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool")
    return min(THREADS, pool["max_size"] - SPARE_CONNECTIONS) if pool else THREADS


class ThreadedASGIHandler(ASGIHandler):
    """Answers in threads; what is streamed is sent from the event loop, as by Django's own handler."""

    def __init__(self) -> None:
        super().__init__()
        executor = ThreadPoolExecutor(_threads(), thread_name_prefix="request")
        self._in_thread = sync_to_async(self._answer, thread_sensitive=False, executor=executor)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            response = await self._in_thread(scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            body.close()

    def _answer(self, scope: dict[str, Any], body: Any) -> Answer:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = self.__class__
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            # All of it is in memory: what belongs to the request ends in the thread where it began.
            response.close()
        else:
            close_old_connections()
        return response  # type: ignore[no-any-return]

    async def _stream(self, response: Answer, receive: Receive, send: Send) -> None:
        """Stream until the end, or until the client is gone."""
        tasks = [
            asyncio.create_task(self.listen_for_disconnect(receive)),
            asyncio.create_task(self.send_response(response, send)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            try:
                with suppress(RequestAborted, asyncio.CancelledError):
                    await tasks[0]
                with suppress(asyncio.CancelledError):
                    await tasks[1]
            finally:
                await sync_to_async(response.close)()
