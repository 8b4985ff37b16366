"""The span of a request, within the trace that its `traceparent` names."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from common import tracing
from common.logs import context
from common.middleware import GetResponse, Told, around


@sync_and_async_middleware
def request_span_middleware(get_response: GetResponse) -> GetResponse:
    """Within that of the request's id. What is streamed ends with its head."""
    if not tracing.is_on():
        raise MiddlewareNotUsed
    return around(get_response, _spanned)


@contextmanager
def _spanned(request: HttpRequest) -> Iterator[Told]:
    with tracing.span("request", "server", parent=request.headers.get("traceparent", "")) as span:
        origin = context.current()
        origin.traceparent = tracing.traceparent()
        span.say(http_request_method=request.method or "", slipway_request__id=origin.request_id)
        yield lambda response: _end(request, response, span)


def _end(request: HttpRequest, response: HttpResponseBase, span: tracing.TraceSpan) -> None:
    # Not the address, which may hold what is nobody's business.
    route = request.resolver_match.view_name if request.resolver_match else "none"
    span.name(f"{request.method} {route}")
    span.say(http_route=route, http_response_status__code=response.status_code)
    if response.status_code >= 500:
        span.fail(str(response.status_code))
