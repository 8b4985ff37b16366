"""Connections that go to judged addresses and nowhere else.

A name is resolved once, its addresses are judged, and the connection is made to one of those: what the name
means a moment later (DNS rebinding) is of no interest. Bodies are read by urllib3, which hands them on as
they lie in the socket, for half the work of httpx2's own transport.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import httpx2
import urllib3

from common import tracing
from common.outbound.addresses import Address
from common.outbound.names import resolve

CONNECT_SECONDS, READ_SECONDS = 10.0, 30.0
"""Silence that is borne; a deadline bounds the whole."""
MAX_IDLE = 8
"""Connections to one address that are kept for the next request."""
MAX_READ_BYTES = 256 * 1024
PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Sequence[Address]]
Judge = Callable[[str, int, Sequence[Address]], None]
"""Raises a SlipwayError unless all these addresses of a host and port may be asked."""


class RequestDeadline:
    """Shuts what was connected under it when its time is up, whatever is being waited for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True
        self._timer.start()

    @property
    def left_seconds(self) -> float:
        return max(self._until - time.monotonic(), 0.001)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def watch(self, connected: socket.socket) -> None:
        with self._lock:
            # Of its own: TLS takes the descriptor of a socket over.
            self._sockets.append(connected.dup())
        if self.is_over:
            self._shut()

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            for one in self._sockets:
                one.close()
            self._sockets.clear()

    def _shut(self) -> None:
        with self._lock:
            for one in self._sockets:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


class PinnedTransport(httpx2.BaseTransport):
    """A connection, and what a certificate proved for it, serves one name.

    With a `deadline`, which it closes, whatever is under way then ends in a httpx2.TimeoutException.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        deadline: RequestDeadline | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._judge = judge
        self._deadline = deadline
        self._resolve = resolve
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, str, int, str], urllib3.HTTPConnectionPool] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Its span ends with the head of the answer. To strangers nothing of it is sent."""
        about = {"server.address": request.url.host, "http.request.method": request.method}
        with tracing.span(f"{request.method} {request.url.host}", "client", attributes=about) as span:
            answer = self._ask(request)
            span.say(http_response_status__code=answer.status_code)
            return answer

    def _ask(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        port = url.port or PORTS[url.scheme]
        addresses = self._resolve(url.host, port)
        self._judge(url.host, port, addresses)
        failure: Exception | None = None
        for address in addresses:
            try:
                return self._answer(self._pool(url.scheme, url.host, port, str(address)), request)
            except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
                self._check_deadline()
                failure = error
            except urllib3.exceptions.HTTPError as error:
                self._check_deadline()
                raise httpx2.ReadError(_why(error)) from error
        raise httpx2.ConnectError(_why(failure) if failure else "the name has no address")

    def _check_deadline(self) -> None:
        if self._deadline is not None and self._deadline.is_over:
            raise httpx2.ReadTimeout(f"no answer within {self._deadline.seconds:g} s")

    def _pool(self, scheme: str, host: str, port: int, address: str) -> urllib3.HTTPConnectionPool:
        key = (scheme, host, port, address)
        with self._lock:
            if key not in self._pools:
                options: dict[str, Any] = {"maxsize": MAX_IDLE, "deadline": self._deadline}
                if scheme == "https":
                    options |= {
                        "ssl_context": _public_tls(),
                        "server_hostname": host,
                        "assert_hostname": host,
                    }
                self._pools[key] = _POOLS[scheme](address, port, **options)
            return self._pools[key]

    def _answer(self, pool: urllib3.HTTPConnectionPool, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.SyncByteStream)  # noqa: S101
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        left = self._deadline.left_seconds if self._deadline else CONNECT_SECONDS
        answer = pool.urlopen(
            request.method,
            request.url.raw_path.decode("ascii"),
            body=request.stream if has_body else None,
            headers=dict(request.headers),
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, left), read=READ_SECONDS),
            preload_content=False,
            decode_content=False,
        )
        headers = list(answer.headers.items())
        body = _Body(answer, self._check_deadline)
        try:
            # Headers that were cut off look as if they had ended.
            self._check_deadline()
        except httpx2.ReadTimeout:
            body.close()
            raise
        return httpx2.Response(answer.status, headers=headers, stream=body)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        if self._deadline is not None:
            self._deadline.close()


class _Body(httpx2.SyncByteStream):
    """Whatever has come, without waiting for more: what is cut off in the middle is not lost."""

    def __init__(self, answer: urllib3.BaseHTTPResponse, check_deadline: Callable[[], None]) -> None:
        self._answer = answer
        self._check_deadline = check_deadline

    def __iter__(self) -> Iterator[bytes]:
        try:
            while data := self._answer.read1(MAX_READ_BYTES, decode_content=False):
                yield data
                self._check_deadline()
        except urllib3.exceptions.HTTPError as error:
            self._check_deadline()
            raise httpx2.ReadError(_why(error)) from error
        self._check_deadline()

    def close(self) -> None:
        # A connection whose answer was not read to its end is of no use to the next request.
        self._answer.close()
        self._answer.release_conn()


class _DeadlineConnection:
    """A connection that a deadline can shut."""

    def __init__(self, *args: Any, deadline: RequestDeadline | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline = deadline

    def _new_conn(self) -> socket.socket:
        connected: socket.socket = super()._new_conn()  # type: ignore[misc]
        if self._deadline is not None:
            self._deadline.watch(connected)
        return connected


class _PlainConnection(_DeadlineConnection, urllib3.connection.HTTPConnection):
    pass


class _TlsConnection(_DeadlineConnection, urllib3.connection.HTTPSConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


_POOLS: dict[str, type[urllib3.HTTPConnectionPool]] = {"http": _PlainPool, "https": _TlsPool}


@cache
def _public_tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _why(error: Exception) -> str:
    """Return the error in a few words: urllib3 names its own objects, which tell a person nothing."""
    cause = next((one for one in (*error.args, error.__cause__) if isinstance(one, Exception)), None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({cause.verify_message})"
    if isinstance(cause, http.client.HTTPException) and not isinstance(
        cause, http.client.RemoteDisconnected | http.client.IncompleteRead
    ):
        return "what it answers is not HTTP"
    if isinstance(cause, http.client.HTTPException):
        return "it broke the connection off"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror[0].lower() + cause.strerror[1:]
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"nothing came for {READ_SECONDS:.0f} s"
    return str(cause or error)
