"""Requests to a hub and to where it redirects: only to addresses that may be asked, and to no other.

A name is resolved once, its addresses are judged, and the connection goes to one of those judged: a name that
resolves to something else a moment later (DNS rebinding) changes nothing. Redirects are followed one by one,
each judged like the first, and no secret goes along to another origin.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

import httpx2
import urllib3

from common.addresses import address_of, is_public, true_address
from models_registry.hub.base import AddressForbidden, HubMisbehaves, HubUnreachable, NameUnresolved

CONNECT_SECONDS, READ_SECONDS = 10.0, 30.0
ANSWER_SECONDS = 60.0
"""For the whole answer to something that was sent."""
MAX_REDIRECTS = 5
MAX_IDLE = 8
"""Connections to one address that are kept for the next request."""
MAX_READ_BYTES = 256 * 1024
_REDIRECTS = {301, 302, 303, 307, 308}


class Connection:
    """`trusted_hosts` (`name:port`) may lie in private networks: the operator named them."""

    def __init__(self, *, trusted_hosts: Collection[str]) -> None:
        self._client = httpx2.Client(
            transport=_Pinned(frozenset(trusted_hosts)),
            timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            headers={"Accept-Encoding": "identity", "User-Agent": "slipway"},
            trust_env=False,
        )

    @contextmanager
    def get(
        self, url: str, *, secret_headers: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[list[httpx2.Response]]:
        """The answers, from the first to the one that is no redirect; only that one still has its body.

        `secret_headers` go to the origin of `url` only. Raises HubUnreachable, AddressForbidden,
        HubMisbehaves; the first one also while the body is read.
        """
        try:
            passed: list[httpx2.Response] = []
            first = address = httpx2.URL(url)
            while True:
                secrets = secret_headers if _origin(address) == _origin(first) else {}
                request = self._client.build_request("GET", address, headers={**headers, **secrets})
                response = self._client.send(request, stream=True)
                passed.append(response)
                if response.status_code not in _REDIRECTS:
                    break
                response.close()
                address = _next(address, response)
                if len(passed) > MAX_REDIRECTS:
                    raise HubMisbehaves(f"The hub redirects more than {MAX_REDIRECTS} times.")
            try:
                yield passed
            finally:
                response.close()
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise _unreachable(address, error) from error
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise HubMisbehaves(f"The hub leads to an address that is none: {error}.") from error

    def send(
        self,
        method: str,
        url: str,
        *,
        secret_headers: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | Iterator[bytes] = b"",
        limit_bytes: int,
    ) -> tuple[httpx2.Response, bytes]:
        """The answer to a request that is followed nowhere, and its body of at most so many bytes.

        An iterator as content needs a `Content-Length`. Raises HubUnreachable, AddressForbidden,
        HubMisbehaves.
        """
        try:
            request = self._client.build_request(
                method, url, headers={**headers, **secret_headers}, content=content
            )
            response = self._client.send(request, stream=True)
            try:
                return response, whole_body(response, limit_bytes=limit_bytes, limit_seconds=ANSWER_SECONDS)
            finally:
                response.close()
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise _unreachable(httpx2.URL(url), error) from error
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise HubMisbehaves(f"The hub leads to an address that is none: {error}.") from error


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what a secret may be sent to. Raises HubMisbehaves."""
    try:
        return _origin(httpx2.URL(url))
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise HubMisbehaves(f"The hub leads to an address that is none: {error}.") from error


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _next(address: httpx2.URL, response: httpx2.Response) -> httpx2.URL:
    target = address.join(response.headers.get("Location", ""))
    if target.scheme not in ("http", "https") or (address.scheme == "https" and target.scheme != "https"):
        raise AddressForbidden(f"The hub redirects from {address.scheme} to {target.scheme or 'nowhere'}.")
    return target


class _Pinned(httpx2.BaseTransport):
    """Connects to judged addresses, by urllib3: it hands bodies on as they lie in the socket, for half the
    work of httpx2's own transport. A connection, and what a certificate proved for it, serves one name.
    """

    def __init__(self, trusted_hosts: frozenset[str]) -> None:
        self._trusted_hosts = trusted_hosts
        self._lock = Lock()
        self._pools: dict[tuple[str, str, int, str], urllib3.HTTPConnectionPool] = {}
        self._certificates = httpx2.create_ssl_context(trust_env=False)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        failure: urllib3.exceptions.HTTPError | None = None
        for address in _addresses(url.host, port, is_trusted=f"{url.host}:{port}" in self._trusted_hosts):
            try:
                return self._answer(self._pool(url.scheme, url.host, port, address), request)
            except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
                failure = error
            except urllib3.exceptions.HTTPError as error:
                raise httpx2.ReadError(_why(error)) from error
        raise httpx2.ConnectError(_why(failure) if failure else "the name has no address")

    def _pool(self, scheme: str, host: str, port: int, address: str) -> urllib3.HTTPConnectionPool:
        key = (scheme, host, port, address)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = (
                    urllib3.HTTPSConnectionPool(
                        address,
                        port,
                        maxsize=MAX_IDLE,
                        ssl_context=self._certificates,
                        server_hostname=host,
                        assert_hostname=host,
                    )
                    if scheme == "https"
                    else urllib3.HTTPConnectionPool(address, port, maxsize=MAX_IDLE)
                )
            return self._pools[key]

    def _answer(self, pool: urllib3.HTTPConnectionPool, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.SyncByteStream)  # noqa: S101
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        answer = pool.urlopen(
            request.method,
            request.url.raw_path.decode("ascii"),
            body=request.stream if has_body else None,
            headers=dict(request.headers),
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            preload_content=False,
            decode_content=False,
        )
        return httpx2.Response(answer.status, headers=list(answer.headers.items()), stream=_Body(answer))

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


class _Body(httpx2.SyncByteStream):
    """Whatever has come, without waiting for more: what is cut off in the middle is not lost."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        try:
            while data := self._answer.read1(MAX_READ_BYTES, decode_content=False):
                yield data
        except urllib3.exceptions.HTTPError as error:
            raise httpx2.ReadError(_why(error)) from error

    def close(self) -> None:
        # A connection whose answer was not read to its end is of no use to the next request.
        self._answer.close()
        self._answer.release_conn()


def _unreachable(address: httpx2.URL, error: Exception) -> HubUnreachable:
    where = address.netloc.decode("ascii", "replace")
    what = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError):
        return HubUnreachable(f"{where} cannot be reached: {what}.")
    return HubUnreachable(f"{where} does not answer as it should: {what}.")


def _why(error: urllib3.exceptions.HTTPError) -> str:
    """What went wrong in a few words: urllib3 names its own objects, which tell a person nothing."""
    cause = next((one for one in (*error.args, error.__cause__) if isinstance(one, Exception)), None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({cause.verify_message})"
    if isinstance(cause, http.client.HTTPException):
        return "it broke the connection off"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror[0].lower() + cause.strerror[1:]
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"nothing came for {READ_SECONDS:.0f} s"
    return str(cause or error)


def _addresses(host: str, port: int, *, is_trusted: bool) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NameUnresolved(
            f"The name {host} cannot be resolved: {why}. Check the address, and the DNS of this server."
        ) from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not is_trusted and not all(_is_public(address) for address in addresses):
        raise AddressForbidden(
            f"{host}:{port} lies in a private network, and this server talks to such hosts only when its "
            "operator names them, each with its port, in SLIPWAY_HUB_ENDPOINTS, for exports in "
            "SLIPWAY_EXPORT_ENDPOINTS."
        )
    return addresses


def _is_public(address: str) -> bool:
    return is_public(true_address(address_of(address)))


def whole_body(response: httpx2.Response, *, limit_bytes: int, limit_seconds: float) -> bytes:
    """The body; HubMisbehaves when it is longer than that, HubUnreachable when it takes longer."""
    body = bytearray()
    deadline = time.monotonic() + limit_seconds
    for chunk in response.iter_raw():
        body += chunk
        if time.monotonic() > deadline:
            raise HubUnreachable(f"The hub has not answered in full after {limit_seconds:.0f} s.")
        if len(body) > limit_bytes:
            raise HubMisbehaves(f"The hub's answer is longer than {limit_bytes:,} bytes.")
    return bytes(body)
