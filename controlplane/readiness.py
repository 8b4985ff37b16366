"""`/healthz`: this process answers. `/readyz`: whether it can do its work, for load balancers and people.
`/metrics`: what it measures, for Prometheus.

Answered before anything else of Django's: a probe names the process by its address, which is no host that
the console goes by, and comes without TLS from behind the proxy; so does Prometheus, which asks each web.
What the parts say in detail is for who proves to have the installation's secret, or a token with the right
to operate the fleet.
"""

import hmac
from collections.abc import Awaitable, Mapping
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from accounts.bearer import has_right
from accounts.states import Right
from common.draining import draining
from common.health import PartHealth
from common.middleware import Answer, GetResponse
from controlplane.health import parts_health
from controlplane.metrics import metrics
from controlplane.readiness_key import HEADER, readiness_key

HEALTH, READINESS, METRICS = "/healthz", "/readyz", "/metrics"


@sync_and_async_middleware
def readiness_middleware(get_response: GetResponse) -> GetResponse:
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            if (found := await sync_to_async(answer_to)(request)) is not None:
                return found
            return await cast("Awaitable[HttpResponseBase]", get_response(request))

        return answer_later

    def answer(request: HttpRequest) -> Answer:
        found = answer_to(request)
        return get_response(request) if found is None else found

    return answer


def answer_to(request: HttpRequest) -> HttpResponse | None:
    """The answer to a probe; None when the request is none."""
    if request.path_info == HEALTH:
        response = HttpResponse("ok\n", content_type="text/plain")
    elif request.path_info == READINESS:
        details = _may_see_details(request)
        report = readiness(parts_health(), with_details=details)
        if details:
            report["request"] = {"client": request.META["REMOTE_ADDR"], "is_secure": request.is_secure()}
        if draining.is_set():
            report |= {"ready": False, "draining": True}
        response = JsonResponse(report, status=200 if report["ready"] else 503)
    elif request.path_info == METRICS:
        return metrics(request)
    else:
        return None
    response["Cache-Control"] = "no-store"
    return response


def readiness(parts: Mapping[str, PartHealth], *, with_details: bool) -> dict[str, Any]:
    """`{ready, healthy, parts: {name: {ok, vital[, detail, took_ms]}}}`.

    `ready`: this process can do its work. `healthy`: every part that it sees does.
    """
    return {
        "ready": all(part.ok for part in parts.values() if part.vital),
        "healthy": all(part.ok for part in parts.values()),
        "parts": {name: _told(part, with_details=with_details) for name, part in parts.items()},
    }


def _told(part: PartHealth, *, with_details: bool) -> Mapping[str, Any]:
    told: dict[str, Any] = {"ok": part.ok, "vital": part.vital}
    if with_details:
        told |= {"detail": str(part.detail), "took_ms": part.took_ms}
    return told


def _may_see_details(request: HttpRequest) -> bool:
    if key := request.headers.get(HEADER):
        return hmac.compare_digest(key.encode(), readiness_key(settings.SECRET_KEY).encode())
    return has_right(request, Right.FLEET_OPERATE)
