"""One id per request: taken from `X-Request-ID` or made, sent back, stamped on every line that is logged."""

import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from common.logs import context

HEADER = "X-Request-ID"
_acceptable = re.compile(r"[A-Za-z0-9._-]{8,64}")

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


def current() -> str:
    """The id of the request that something is done for; `-` when it is done for none."""
    return context.current().request_id


def accepted(offered: str) -> str:
    """What the client calls its request, if that can do no harm; else a name of our own."""
    return offered if _acceptable.fullmatch(offered) else uuid.uuid4().hex


@sync_and_async_middleware
def request_id_middleware(get_response: Callable[[HttpRequest], Answer]) -> Callable[[HttpRequest], Answer]:
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with _identified(request) as name:
                response = await cast("Awaitable[HttpResponseBase]", get_response(request))
            response[HEADER] = name
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with _identified(request) as name:
            response = cast("HttpResponseBase", get_response(request))
        response[HEADER] = name
        return response

    return answer


@contextmanager
def _identified(request: HttpRequest) -> Iterator[str]:
    name = accepted(request.headers.get(HEADER, ""))
    with context.asked(name) as origin:
        # Django tells of refusals when this is over, and hands the request to the log.
        request.origin = origin  # type: ignore[attr-defined]
        yield name
