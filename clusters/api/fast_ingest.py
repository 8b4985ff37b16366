"""The endpoints that every machine and worker calls every second.

Through Django's middleware a call costs 5 ms of CPU, by the short way a tenth of that (`perf/fleet`).
So `controlplane.asgi` hands POSTs to these paths to `fast_ingest` directly. Their views stand in the schema,
and answer under WSGI.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.http import HttpRequest
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
GATHER_SECONDS = 0.02
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
    authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    address = (scope.get("client") or ("",))[0]
    status, fields = 200, [(b"content-type", b"application/json")]
    try:
        body = await _body(receive)
        who = await _who(endpoint, authorization.decode("latin-1"), address)
        content = await endpoint.take(who, body)
    except Exception as error:
        request = HttpRequest()
        request.method, request.path = "POST", endpoint.path
        response = problems.http_answer(error, request=request)
        status, content = response.status_code, response.content
        fields = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    fields.append((b"content-length", b"%d" % len(content)))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


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
        loop = asyncio.get_running_loop()
        lookups = _lookups.get(loop) or _lookups.setdefault(loop, _TokenLookups())
        who = await lookups.who(_AskedToken(endpoint, text, address))
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        found = _known[endpoint.path, text] = (now + TRUST_SECONDS, who)
    return found[1]


@dataclass(frozen=True, slots=True)
class _AskedToken:
    endpoint: IngestEndpoint[Any]
    text: str
    address: str


class _TokenLookups:
    """Looks up together what tokens are asked for at once: a trip to a thread costs more than a lookup."""

    def __init__(self) -> None:
        self._asked: dict[_AskedToken, asyncio.Future[Any]] = {}
        self._task: asyncio.Task[None] | None = None

    async def who(self, asked: _AskedToken) -> Any:
        if asked not in self._asked:
            self._asked[asked] = asyncio.get_running_loop().create_future()
            if len(self._asked) == 1:
                # Not in the context of one of those who ask: its database thread ends with its request.
                self._task = asyncio.get_running_loop().create_task(self._look_up(), context=Context())
        return await asyncio.shield(self._asked[asked])

    async def _look_up(self) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        asked, self._asked = self._asked, {}
        try:
            answers = await database_sync_to_async(_look_up_all)(list(asked))
        except Exception as error:
            answers = [error] * len(asked)
        for future, answer in zip(asked.values(), answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


_lookups: "WeakKeyDictionary[asyncio.AbstractEventLoop, _TokenLookups]" = WeakKeyDictionary()


def _look_up_all(asked: list[_AskedToken]) -> list[Any]:
    """Return for whom each token speaks, or why it does not."""
    answers: list[Any] = []
    for one in asked:
        try:
            answers.append(_look_up(one.endpoint, one.text, one.address))
        except Exception as error:
            answers.append(error)
    return answers


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
