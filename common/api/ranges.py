"""Content that is read by ranges (RFC 9110, sections 13 and 14): 200, 206, 304, 416, and HEAD.

One range per request: what asks for several is answered whole, as the standard allows. The bytes go from the
source to the client piece by piece; what streams holds one piece in memory.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

PIECE_BYTES = 1024 * 1024
MEDIA_TYPE = "application/octet-stream"
_RANGE = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*")

ReadAt = Callable[[int, int], bytes]
"""So many bytes from an offset on; fewer only when the source has become shorter."""


class _Streamed(StreamingHttpResponse):
    """Closes the source also when not one piece of it was asked for."""

    def __init__(self, source: ExitStack, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._source = source

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._source.close()


def ranged(
    request: HttpRequest,
    opened: AbstractContextManager[Any],
    *,
    etag: str,
    size_of: Callable[[Any], int],
    read_at: Callable[[Any], ReadAt],
) -> HttpResponseBase:
    """The answer to GET or HEAD. `opened` is entered here and left when the last byte is sent."""
    with ExitStack() as stack:
        source = stack.enter_context(opened)
        size = size_of(source)
        headers = {"ETag": etag, "Accept-Ranges": "bytes"}
        if request.headers.get("If-None-Match", "").strip() in ("*", etag):
            return HttpResponse(status=304, headers=headers)
        start, end, status = 0, size, 200
        wanted = request.headers.get("Range", "")
        if wanted and request.headers.get("If-Range", etag).strip() == etag:
            span = span_of(wanted, size)
            if span is not None:
                (start, end), status = span, 206
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
            if start == end and status == 206:
                return HttpResponse(status=416, headers=headers | {"Content-Range": f"bytes */{size}"})
        headers["Content-Length"] = str(end - start)
        if request.method == "HEAD":
            return HttpResponse(status=status, content_type=MEDIA_TYPE, headers=headers)
        pieces = _pieces(read_at(source), start, end)
        return _Streamed(stack.pop_all(), pieces, status=status, content_type=MEDIA_TYPE, headers=headers)
    raise AssertionError("unreachable")


def span_of(header: str, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last, the same when it has none of these bytes; None: not one range
    of bytes, which is to be ignored.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    return (start, end) if start < end else (0, 0)


async def _pieces(read_at: ReadAt, start: int, end: int) -> AsyncIterator[bytes]:
    """Ends early when the source does: the client sees that the answer is not whole."""
    while start < end:
        piece = await asyncio.to_thread(read_at, start, min(PIECE_BYTES, end - start))
        if not piece:
            return
        yield piece
        start += len(piece)
