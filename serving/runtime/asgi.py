"""ASGI messages of the front: bodies with a limit, answers, problems and events."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from serving.runtime.api import Problem

PROBLEM_TYPE = "application/problem+json"
Receive = Callable[[], Any]
Send = Callable[[dict[str, Any]], Any]
Headers = dict[str, str]


class ClientLeft(Exception):
    """The client left before its request was whole."""


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """Read the body of a request. Raises Problem (413), ClientLeft."""
    told = headers.get("content-length", "0")
    if told.isdigit() and int(told) > limit:
        raise Problem(413, "Body too large", f"The body may have {limit} bytes.")
    message = await receive()
    parts = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientLeft
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise Problem(413, "Body too large", f"The body may have {limit} bytes.")
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        message = await receive()


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def begin(send: Send, status: int, kind: str, headers: Headers) -> None:
    named = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    named.append((b"content-type", kind.encode("latin-1", "replace")))
    await send({"type": "http.response.start", "status": status, "headers": named})


async def reply(send: Send, status: int, kind: str, body: bytes, headers: Headers) -> None:
    if status not in (204, 304):
        headers = headers | {"content-length": str(len(body))}
    await begin(send, status, kind, headers)
    await send({"type": "http.response.body", "body": b"" if status in (204, 304) else body})


async def reply_problem(send: Send, problem: Problem, headers: Headers) -> None:
    await reply(send, problem.status, PROBLEM_TYPE, json.dumps(problem.document()).encode(), headers)


async def send_events(send: Send, documents: AsyncIterator[Any], receive: Receive, headers: Headers) -> None:
    await begin(send, 200, "text/event-stream", headers | {"cache-control": "no-cache"})
    gone = asyncio.create_task(disconnected(receive))
    try:
        async for document in documents:
            if gone.done():
                return
            event = b"data: " + json.dumps(document).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()
