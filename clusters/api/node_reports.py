"""`POST node-reports/`: what the agent of every machine calls every second.

Through Django's middleware a call costs 5 ms of CPU, by the short way a tenth of that (perf/live.py): so
`controlplane.asgi` hands it to `short_way` directly. The view stands in the schema, and answers under WSGI.
"""

import time
from collections.abc import Mapping
from typing import Any, cast

import orjson
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotAuthenticated, ParseError
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts.actors import KnownActor, of_request, of_token
from accounts.bearer import CHALLENGE, bearer_text, bearer_token
from accounts.errors import BadToken
from clusters.api.serializers import NodeReportSerializer, ReceiptSerializer
from clusters.services.node_reports import ReportingAgent, accept_report, reporting_agent
from common.api import problems
from common.api.json import TooLarge, dumps

PATH = "/api/v1/node-reports/"
MAX_BODY_BYTES = 2_500_000
TRUST_SECONDS = 10.0
"""How long a token that was found good is not asked for again; so long a revoked one still reports."""
MAX_KNOWN = 1_000

_known: dict[str, tuple[float, ReportingAgent]] = {}


async def short_way(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """ASGI application for POSTs to `PATH`."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    address = (scope.get("client") or ("",))[0]
    try:
        body = await _body(receive)
        agent = await _agent(headers.get(b"authorization", ""), address)
        content = await _take_report(agent, body)
        response = HttpResponse(content, content_type="application/json")
    except Exception as error:
        request = HttpRequest()
        request.method, request.path = "POST", PATH
        response = problems.http_answer(error, request=request)
    response["Content-Length"] = str(len(response.content))
    fields = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": fields})
    await send({"type": "http.response.body", "body": response.content})


class NodeReports(APIView):
    """The same endpoint, where Django is asked."""

    @extend_schema(request=NodeReportSerializer, responses=ReceiptSerializer, operation_id="report_node")
    def post(self, request: Request) -> HttpResponse:
        """The agent of a machine reports it, with all its workers and devices.

        Invalid entries are listed in `refused`; the others are accepted. A report that is not newer than the
        last one of its session, or whose session another one has replaced, is refused (409) and changes
        nothing. Requires the right `fleet.report`, by a token of this machine.
        """
        agent = reporting_agent(cast("KnownActor", of_request(request._request)))
        content = async_to_sync(_take_report)(agent, request.body)
        return HttpResponse(content, content_type="application/json")


async def _take_report(agent: ReportingAgent, body: bytes) -> bytes:
    """The answer to one POST, as JSON. Raises what `common.api.problems` knows."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: {error}.") from None
    receipt = await accept_report(document, agent=agent)
    refused = [{"entry": one.entry, "reason": one.reason} for one in receipt.refused]
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
            raise TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.")
        if not message.get("more_body"):
            return b"".join(parts)


async def _agent(authorization: str, address: str) -> ReportingAgent:
    """Whoever is behind the bearer token, and may report a machine."""
    text = bearer_text(authorization)
    if text is None:
        raise _unknown("Send the token of the machine: Authorization: Bearer slp_...")
    now = time.monotonic()
    found = _known.get(text)
    if found is None or found[0] < now:
        agent = await database_sync_to_async(_look_up)(text, address)
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        found = _known[text] = (now + TRUST_SECONDS, agent)
    return found[1]


def _look_up(text: str, address: str) -> ReportingAgent:
    try:
        actor = of_token(bearer_token(text, address=address), address=address)
    except BadToken as error:
        raise _unknown(str(error)) from None
    return reporting_agent(actor)


def _unknown(why: str) -> NotAuthenticated:
    error = NotAuthenticated(why)
    error.auth_header = CHALLENGE  # type: ignore[attr-defined]
    return error
