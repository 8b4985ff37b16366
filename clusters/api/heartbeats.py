"""`POST heartbeats/`: the one endpoint that every worker calls every second, so it goes the short way."""

import time
from typing import Any

import orjson
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import MethodNotAllowed, NotAuthenticated, ParseError
from rest_framework.views import APIView

from accounts.actors import KnownActor, of_token
from accounts.errors import BadToken
from accounts.services import require, use_token
from accounts.states import Right
from clusters.api.serializers import HeartbeatsSerializer, ReceiptSerializer
from clusters.services import accept_heartbeats
from common.api import problems
from common.api.json import dumps

TRUST_SECONDS = 10.0
"""How long a token that was found good is not asked for again; so long a revoked one still reports."""
MAX_KNOWN = 1_000

_known: dict[str, tuple[float, KnownActor]] = {}


class Heartbeats(APIView):
    """Describes the endpoint for the schema; `as_view` gives the function that answers."""

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:  # Django's types know no asynchronous views.
        async def view(request: HttpRequest) -> HttpResponse:
            try:
                return await _answer(request)
            except Exception as error:
                return problems.http_answer(error, request=request)

        view.cls = cls  # type: ignore[attr-defined]
        view.initkwargs = initkwargs  # type: ignore[attr-defined]
        return csrf_exempt(view)

    @extend_schema(
        request=HeartbeatsSerializer, responses=ReceiptSerializer, operation_id="heartbeats_create"
    )
    def post(self, request: HttpRequest) -> HttpResponse:
        """Workers report busy rates, load and state.

        Entries that cannot be taken are named in `refused`; the others count. Takes the right `fleet.report`.
        """
        raise NotImplementedError


async def _answer(request: HttpRequest) -> HttpResponse:
    actor = await _reporter(request)
    if request.method != "POST":
        raise MethodNotAllowed(str(request.method))
    try:
        document = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: {error}.") from None
    receipt = await accept_heartbeats(document, actor=actor)
    refused = [{"worker": one.worker, "reason": one.reason} for one in receipt.refused]
    content = dumps({"accepted": receipt.accepted, "refused": refused})
    return HttpResponse(content, content_type="application/json")


async def _reporter(request: HttpRequest) -> KnownActor:
    """Whoever is behind the bearer token, and may report for some team."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise _unknown("Send the token of a worker: Authorization: Bearer slp_...")
    now = time.monotonic()
    found = _known.get(text)
    if found is None or found[0] < now:
        actor = await sync_to_async(_look_up)(text, request.META.get("REMOTE_ADDR", ""))
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        found = _known[text] = (now + TRUST_SECONDS, actor)
    return found[1]


def _look_up(text: str, address: str) -> KnownActor:
    try:
        actor = of_token(use_token(text.strip()), address=address)
    except BadToken as error:
        raise _unknown(str(error)) from None
    require(actor, Right.FLEET_REPORT)  # Reads the rights, too, while a database is at hand.
    return actor


def _unknown(why: str) -> NotAuthenticated:
    error = NotAuthenticated(why)
    error.auth_header = 'Bearer realm="slipway"'  # type: ignore[attr-defined]
    return error
