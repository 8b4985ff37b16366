"""The access log: a line for every request that was answered, without what stood in its address.

Probes and the reports of machines are answered before this, and leave no line.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from common.logs import context
from common.middleware import GetResponse, Told, around

logger = logging.getLogger("slipway.access")


@sync_and_async_middleware
def access_log_middleware(get_response: GetResponse) -> GetResponse:
    """Within that of the request's id. What is streamed is told of when it begins."""
    if not settings.SLIPWAY_ACCESS_LOG:
        raise MiddlewareNotUsed
    return around(get_response, _timed)


@contextmanager
def _timed(request: HttpRequest) -> Iterator[Told]:
    begun = time.perf_counter()
    yield lambda response: _tell(request, response, time.perf_counter() - begun)


def _tell(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    match = request.resolver_match
    route = match.view_name if match else "none"
    milliseconds = round(seconds * 1000, 1)
    client = request.META.get("REMOTE_ADDR", "")
    fields = {
        "method": request.method,
        "route": route,
        **_ids(match.kwargs if match else {}),
        "status": response.status_code,
        "duration_ms": milliseconds,
        "bytes": _size(response),
        "client": client,
    }
    logger.info(
        "%s %s %s %s ms, %s, %s",
        *(request.method, route, response.status_code, milliseconds),
        *(client or "-", context.current().actor or "-"),
        extra={"fields": fields},
    )


def _ids(found: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers that the address named, and nothing else: no secret is a number."""
    return {f"arg_{name}": value for name, value in found.items() if isinstance(value, int)}


def _size(response: HttpResponseBase) -> int | None:
    if not response.streaming:
        return len(response.content)  # type: ignore[attr-defined]
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None
