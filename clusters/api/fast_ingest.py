"""The endpoints that every machine and worker calls every second.

Through Django's middleware a call costs 5 ms of CPU, by the short way a tenth of that (perf/live.py): so
`controlplane.asgi` hands POSTs to these paths to `fast_ingest` directly. Their views stand in the schema, and
answer under WSGI.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import NotAuthenticated, ParseError

from accounts.actors import KnownActor, of_token
from accounts.bearer import CHALLENGE, bearer_text, bearer_token
from accounts.errors import InvalidToken
from clusters.services.node_reports import ReportReceipt
from common.api import problems
from common.api.json import BodyTooLarge, dumps

Who = TypeVar("Who")
MAX_BODY_BYTES = 2_500_000
TRUST_SECONDS = 10.0
"""How long a token that was found good is not asked for again; so long a revoked one still reports."""
MAX_KNOWN = 10_000

_known: dict[tuple[str, str], tuple[float, Any]] = {}
"""Until when it is trusted, and for whom it speaks, by path and token."""


@dataclass(frozen=True, slots=True)
class IngestEndpoint(Generic[Who]):
    path: str
    look_up: Callable[[KnownActor], Who]
    """For whom a token speaks here. Raises what `common.api.problems` knows, as `take` does."""
    take: Callable[[Who, bytes], Awaitable[bytes]]
    """The answer to one POST, as JSON."""


async def fast_ingest(
    endpoint: IngestEndpoint[Any], scope: Mapping[str, Any], receive: Any, send: Any
) -> None:
    """ASGI application for POSTs to an endpoint."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    address = (scope.get("client") or ("",))[0]
    try:
        body = await _body(receive)
        who = await _who(endpoint, headers.get(b"authorization", ""), address)
        response = HttpResponse(await endpoint.take(who, body), content_type="application/json")
    except Exception as error:
        request = HttpRequest()
        request.method, request.path = "POST", endpoint.path
        response = problems.http_answer(error, request=request)
    response["Content-Length"] = str(len(response.content))
    fields = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": fields})
    await send({"type": "http.response.body", "body": response.content})


def receipt_json(receipt: ReportReceipt, *, entry_name: str) -> bytes:
    """A receipt as JSON, whose refusals name their entries under `entry_name`."""
    refused = [{entry_name: one.entry, "reason": one.reason} for one in receipt.refused]
    return dumps({"accepted": receipt.accepted, "refused": refused})


async def _body(receive: Any) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ParseError("The body is not whole.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.")
        if not message.get("more_body"):
            return b"".join(parts)


async def _who(endpoint: IngestEndpoint[Any], authorization: str, address: str) -> Any:
    """Whoever is behind the bearer token, and may come in."""
    text = bearer_text(authorization)
    if text is None:
        raise _unknown("Send the token that was made for it: Authorization: Bearer slp_...")
    now = time.monotonic()
    found = _known.get((endpoint.path, text))
    if found is None or found[0] < now:
        who = await database_sync_to_async(_look_up)(endpoint, text, address)
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        found = _known[endpoint.path, text] = (now + TRUST_SECONDS, who)
    return found[1]


def _look_up(endpoint: IngestEndpoint[Any], text: str, address: str) -> Any:
    try:
        actor = of_token(bearer_token(text, address=address), address=address)
    except InvalidToken as error:
        raise _unknown(str(error)) from None
    return endpoint.look_up(actor)


def _unknown(why: str) -> NotAuthenticated:
    error = NotAuthenticated(why)
    error.auth_header = CHALLENGE  # type: ignore[attr-defined]
    return error
