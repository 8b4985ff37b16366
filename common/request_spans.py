"""The span of a request, within the trace that its `traceparent` names."""

from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from common import tracing
from common.logs import context

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


@sync_and_async_middleware
def request_span_middleware(get_response: Callable[[HttpRequest], Answer]) -> Callable[[HttpRequest], Answer]:
    """Within that of the request's id. What is streamed ends with its head."""
    if not tracing.is_on():
        raise MiddlewareNotUsed
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with tracing.span("request", "server", parent=request.headers.get("traceparent", "")) as span:
                _begin(request, span)
                response = await cast("Awaitable[HttpResponseBase]", get_response(request))
                _end(request, response, span)
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with tracing.span("request", "server", parent=request.headers.get("traceparent", "")) as span:
            _begin(request, span)
            response = cast("HttpResponseBase", get_response(request))
            _end(request, response, span)
        return response

    return answer


def _begin(request: HttpRequest, span: tracing.Span) -> None:
    origin = context.current()
    origin.traceparent = tracing.traceparent()
    span.say(http_request_method=request.method or "", slipway_request__id=origin.request_id)


def _end(request: HttpRequest, response: HttpResponseBase, span: tracing.Span) -> None:
    # Not the address, which may hold what is nobody's business.
    route = request.resolver_match.view_name if request.resolver_match else "none"
    span.name(f"{request.method} {route}")
    span.say(http_route=route, http_response_status__code=response.status_code)
    if response.status_code >= 500:
        span.fail(str(response.status_code))
