"""Says to the gateway that work on a request has begun, so that nobody else may be asked to do it.

A gateway that loses the worker of a request asks another one only while this one has not begun: a generation
must not run twice. `100 Continue` on its way to the answer says so: Envoy gives up all retries when it comes
and keeps it from the client, and every HTTP/1.1 client has to pass over it (RFC 9110, 15.2).
"""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from serving.protocol import ATTEMPT_HEADER

_ATTEMPT = ATTEMPT_HEADER.encode()
BEGUN = b"HTTP/1.1 100 Continue\r\n\r\n"
EXTENSION = "slipway.begun"


def tells_begin(app: ASGIApp) -> ASGIApp:
    """Pass interim answers past ASGI, which has none, to the connection. For directly under uvicorn."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        transport = getattr(getattr(send, "__self__", None), "transport", None)
        if transport is not None and scope.get("http_version") == "1.1":

            def begin() -> None:
                if not transport.is_closing():
                    transport.write(BEGUN)

            scope.setdefault("extensions", {})[EXTENSION] = begin
        await app(scope, receive, send)

    return told


def begin_of(scope: Scope) -> Callable[[], None]:
    """Return the function to call once, before the answer, when the work begins."""
    begin: Callable[[], None] = scope.get("extensions", {}).get(EXTENSION, _nobody_listens)
    return begin


def is_retried(scope: Scope) -> bool:
    """Whether the gateway has sent this request to another worker before, which died before it began."""
    return any(name == _ATTEMPT and value not in (b"", b"1") for name, value in scope["headers"])


def _nobody_listens() -> None:
    return
