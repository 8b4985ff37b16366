"""One POST to a stranger: to a judged address, within a time limit, and never further than there."""

import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpcore2
from httpcore2 import NetworkBackend, NetworkStream

from common.addresses import Address
from common.errors import SlipwayError
from common.webhooks import destination as places
from common.webhooks.destination import Allowed, Resolve

WITHIN_SECONDS = 10.0
"""From the connection to the last byte that we read; the kernel's lease is 30 s."""
CONNECT_WITHIN_SECONDS = 4.0
EXCERPT_BYTES = 1024
PIECE_BYTES = 4096
"""Sent between two looks at the clock."""
OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it. `error` is a sentence where no answer came, or none that counts."""

    status: int | None
    milliseconds: int
    body: str = ""
    """First KiB of the response."""
    retry_after: str = ""
    error: str = ""

    @property
    def is_success(self) -> bool:
        return self.status in OK and not self.error


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    allowed: Allowed,
    within_seconds: float = WITHIN_SECONDS,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send it and say what came of it. Redirects are not followed: they count as a failure, and say so."""
    began = time.monotonic()
    status, answered, retry_after, error = None, b"", "", ""
    try:
        place = places.parse(url, allowed)
        found = places.addresses(place, allowed, resolve=resolve)
        request = httpcore2.Request(
            "POST",
            httpcore2.URL(
                scheme=place.scheme.encode(),
                host=place.host.encode(),
                port=place.port,
                target=place.target.encode(),
            ),
            headers=[("host", place.authority), ("content-length", str(len(body))), *headers.items()],
            content=body,
        )
        backend = _Pinned(found, deadline=began + within_seconds)
        tls = tls or _public_tls()
        with httpcore2.ConnectionPool(ssl_context=tls, network_backend=backend) as pool:
            response = pool.handle_request(request)
            try:
                status = response.status
                named = {name.lower(): value.decode("ascii", "replace") for name, value in response.headers}
                retry_after = named.get(b"retry-after", "")
                if status in range(300, 400):
                    error = f"It redirects to {named.get(b'location', '')[:200]}: give the final address."
                answered = _beginning(response.iter_stream())
            finally:
                response.close()
    except httpcore2.TimeoutException:
        if status not in OK:
            error = f"No answer within {within_seconds:g} s."
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as fault:
        # The status has decided: a body that breaks off changes nothing of it.
        if status not in OK:
            error = f"The connection failed: {fault or type(fault).__name__}."
    except SlipwayError as fault:
        error = str(fault)
    milliseconds = round((time.monotonic() - began) * 1000)
    # PostgreSQL keeps no zero bytes.
    excerpt = answered.decode("utf-8", "replace").replace("\0", "")
    return Answer(status, milliseconds, excerpt, retry_after, error)


def _beginning(chunks: Iterable[bytes]) -> bytes:
    read = b""
    for chunk in chunks:
        read += chunk
        if len(read) >= EXCERPT_BYTES:
            break
    return read[:EXCERPT_BYTES]


@cache
def _public_tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class _Pinned(NetworkBackend):
    """Connects to the addresses that were judged, whatever the host is called, until the deadline."""

    def __init__(self, found: Iterable[Address], *, deadline: float) -> None:
        self._addresses = list(found)
        self._deadline = deadline
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> NetworkStream:
        fault: Exception | None = None
        for address in self._addresses:
            within = min(CONNECT_WITHIN_SECONDS, _left(self._deadline, httpcore2.ConnectTimeout))
            try:
                stream = self._sockets.connect_tcp(str(address), port, within, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                fault = error
            else:
                return _Limited(stream, self._deadline)
        raise fault or httpcore2.ConnectError("no address")


class _Limited(NetworkStream):
    """A stream whose every read and write ends at one deadline, however slowly the other side drips."""

    def __init__(self, stream: NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE_BYTES):
            left = _left(self._deadline, httpcore2.WriteTimeout)
            self._stream.write(buffer[start : start + PIECE_BYTES], left)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> NetworkStream:
        left = _left(self._deadline, httpcore2.ConnectTimeout)
        return _Limited(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float, too_late: type[Exception]) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise too_late("The time is up.")
    return left
