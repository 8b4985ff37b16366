"""How large a request may be: decided before it is kept.

Django writes a whole body to a temporary file (beyond FILE_UPLOAD_MAX_MEMORY_SIZE; in TMPDIR) before anybody
asks who sent it. The server reads from the connection only as fast as that goes, so no body fills the memory;
this keeps one from filling the disk.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.http import HttpRequest

from common.api import problems
from common.api.json import BodyTooLarge

MOST_BYTES = 10 * 1024 * 1024
"""More than any document has; what reads one has a limit of its own."""
MOST_PART_BYTES = 32 * 1024 * 1024
"""Of a part of an upload."""
_PART = re.compile(r"/api/v1/models/[^/]+/uploads/[0-9]+/blobs/[0-9a-f]{64}/?")

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def bounded(application: Application) -> Application:
    """The application behind a limit for bodies: a larger one is answered 413, and not read to its end."""

    async def limited(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        limit = MOST_PART_BYTES if _is_part(scope) else MOST_BYTES
        if _announced(scope) > limit:
            await _refuse(scope, send, limit)
            return
        came, has_begun = 0, False

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > limit:
                raise BodyTooLarge
            return message

        async def told(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await application(scope, counted, told)
        except BodyTooLarge:
            if has_begun:
                raise
            await _refuse(scope, send, limit)

    return limited


def _is_part(scope: dict[str, Any]) -> bool:
    return scope["method"] == "PUT" and bool(_PART.fullmatch(scope["path"]))


def _announced(scope: dict[str, Any]) -> int:
    """The Content-Length; 0 where it is told nowhere."""
    told = dict(scope["headers"]).get(b"content-length", b"")
    return int(told) if told.isdigit() else 0


async def _refuse(scope: dict[str, Any], send: Send, limit: int) -> None:
    request = HttpRequest()
    request.method, request.path = scope["method"], scope["path"]
    answer = problems.http_answer(
        BodyTooLarge(f"The body is larger than {limit:,} bytes: send less at once."), request=request
    )
    answer["Content-Length"] = str(len(answer.content))
    # The rest of the body stands in the way of another request.
    answer["Connection"] = "close"
    fields = [(name.lower().encode(), value.encode()) for name, value in answer.items()]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": fields})
    await send({"type": "http.response.body", "body": answer.content})
