"""One id per request: taken from `X-Request-ID` or made, sent back, stamped on every line that is logged."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from common.logs import context
from common.middleware import GetResponse, Told, around

HEADER = "X-Request-ID"
_acceptable = re.compile(r"[A-Za-z0-9._-]{8,64}")


def current() -> str:
    """The id of the request that something is done for; `-` when it is done for none."""
    return context.current().request_id


def accepted(offered: str) -> str:
    """Return the client's name for its request, if that can do no harm; else a name of our own."""
    return offered if _acceptable.fullmatch(offered) else uuid.uuid4().hex


@sync_and_async_middleware
def request_id_middleware(get_response: GetResponse) -> GetResponse:
    return around(get_response, _identified)


@contextmanager
def _identified(request: HttpRequest) -> Iterator[Told]:
    name = accepted(request.headers.get(HEADER, ""))
    with context.asked(name) as origin:
        # Django tells of refusals when this is over, and hands the request to the log.
        request.origin = origin  # type: ignore[attr-defined]
        yield lambda response: response.headers.__setitem__(HEADER, name)
