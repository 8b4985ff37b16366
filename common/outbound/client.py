"""Requests over `transport.Pinned`: redirects one by one, secrets to their origin only, sizes bounded."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx2

from common.outbound.faults import Forbidden, HostUnreachable, Misbehaves, TimedOut
from common.outbound.transport import CONNECT_SECONDS, PORTS, READ_SECONDS, Judge, PinnedTransport

USER_AGENT = "slipway"
ANSWER_SECONDS = 60.0
"""For the whole answer to something that was sent."""
MAX_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}


class OutboundClient:
    """Safe from several threads."""

    def __init__(self, judge: Judge) -> None:
        self._client = httpx2.Client(
            transport=PinnedTransport(judge),
            timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            headers={"Accept-Encoding": "identity", "User-Agent": USER_AGENT},
            trust_env=False,
        )

    @contextmanager
    def get(
        self, url: str, *, secret_headers: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[list[httpx2.Response]]:
        """The answers, from the first to the one that is no redirect; only that one still has its body.

        `secret_headers` go to the origin of `url` only. Raises what `faults` holds, and what the judge
        raises; Unreachable also while the body is read.
        """
        passed: list[httpx2.Response] = []
        with in_words(url) as asked:
            first = address = httpx2.URL(url)
            while True:
                asked.append(address)
                secrets = secret_headers if _origin(address) == _origin(first) else {}
                request = self._client.build_request("GET", address, headers={**headers, **secrets})
                response = self._client.send(request, stream=True)
                passed.append(response)
                if response.status_code not in _REDIRECTS:
                    break
                response.close()
                address = _next(address, response)
                if len(passed) > MAX_REDIRECTS:
                    raise Misbehaves(f"{first.host} redirects more than {MAX_REDIRECTS} times.")
            try:
                yield passed
            finally:
                response.close()

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

        An iterator as content needs a `Content-Length`. Raises what `faults` holds and what the judge raises.
        """
        with in_words(url):
            request = self._client.build_request(
                method, url, headers={**headers, **secret_headers}, content=content
            )
            response = self._client.send(request, stream=True)
            try:
                return response, whole_body(response, limit_bytes=limit_bytes, limit_seconds=ANSWER_SECONDS)
            finally:
                response.close()


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what a secret may be sent to. Raises Misbehaves."""
    with in_words(url):
        return _origin(httpx2.URL(url))


def whole_body(response: httpx2.Response, *, limit_bytes: int, limit_seconds: float) -> bytes:
    """The body. Raises Misbehaves when it is longer than that, HostUnreachable when it takes longer."""
    body = bytearray()
    deadline = time.monotonic() + limit_seconds
    host = response.request.url.host
    for chunk in response.iter_raw():
        body += chunk
        if time.monotonic() > deadline:
            raise HostUnreachable(f"{host} has not answered in full after {limit_seconds:.0f} s.")
        if len(body) > limit_bytes:
            raise Misbehaves(f"The answer of {host} is longer than {limit_bytes:,} bytes.")
    return bytes(body)


@contextmanager
def in_words(url: str) -> Iterator[list[httpx2.URL]]:
    """Faults of the libraries as ours; the list takes the addresses that are asked, the last one at fault."""
    asked: list[httpx2.URL] = []
    try:
        yield asked
    except httpx2.TimeoutException as error:
        raise TimedOut(f"{_where(asked, url)} does not answer in time: {error}.") from error
    except httpx2.ConnectError as error:
        raise HostUnreachable(f"{_where(asked, url)} cannot be reached: {error}.") from error
    except (httpx2.TransportError, httpx2.StreamError) as error:
        what = str(error) or type(error).__name__
        raise HostUnreachable(f"{_where(asked, url)} does not answer as it should: {what}.") from error
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise Misbehaves(f"It leads to an address that is none: {error}.") from error


def _where(asked: list[httpx2.URL], url: str) -> str:
    return (asked[-1] if asked else httpx2.URL(url)).netloc.decode("ascii", "replace")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _next(address: httpx2.URL, response: httpx2.Response) -> httpx2.URL:
    target = address.join(response.headers.get("Location", ""))
    if target.scheme not in PORTS or (address.scheme == "https" and target.scheme != "https"):
        raise Forbidden(f"It redirects from {address.scheme} to {target.scheme or 'nowhere'}.")
    return target
