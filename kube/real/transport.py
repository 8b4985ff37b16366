"""Requests to an API server: TLS, credentials, time limits, one pool of connections and one rate per
cluster.
"""

import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject

from kube.access import Access
from kube.client import KubeClient
from kube.errors import ApiUnreachable, BadConfig, KubeError, ServerFault
from kube.rate import ORDINARY, Rate, TokenBucket
from kube.real.pinned import Judge, pin
from kube.transport import ApiCall, ApiReply

CONNECT_SECONDS = 3.0
CONNECTIONS = 10
MOST_BYTES = 64 * 1024 * 1024
"""Of one answer: a page of 500 large objects has less."""
CHUNK_BYTES = 64 * 1024


class RealTransport:
    """The connection to one cluster, as one user; for all threads of a process."""

    def __init__(
        self,
        access: Access,
        *,
        rate: Rate = ORDINARY,
        connect_seconds: float = CONNECT_SECONDS,
        judge: Judge | None = None,
    ) -> None:
        """Asks nothing of the cluster. `judge`: where it may be; None: anywhere. Raises BadConfig."""
        self.access = access
        self._connect_seconds = connect_seconds
        self._bucket = TokenBucket(rate, clock=time.monotonic, sleep=time.sleep)
        configuration = Configuration(host=access.server)
        configuration.connection_pool_maxsize = CONNECTIONS
        if access.proxy:
            configuration.proxy = access.proxy
        if access.server_name:
            configuration.tls_server_name = access.server_name
        self._pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        if judge is not None:
            pin(self._pool, judge)
        if access.server.startswith("https:"):
            self._pool.connection_pool_kw["ssl_context"] = tls_context(access)

    def send(self, call: ApiCall) -> ApiReply:
        deadline = time.monotonic() + call.limit_seconds
        with self._opened(call, deadline) as (response, headers):
            return ApiReply(response.status, headers, _read(response, deadline))

    @contextmanager
    def stream(self, call: ApiCall) -> Iterator[tuple[ApiReply, Iterator[bytes]]]:
        deadline = time.monotonic() + call.limit_seconds
        with self._opened(call, deadline) as (response, headers):
            if response.status != 200:
                yield ApiReply(response.status, headers, _read(response, deadline)), iter(())
            else:
                yield ApiReply(200, headers, b""), _lines(response)

    @contextmanager
    def _opened(
        self, call: ApiCall, deadline: float
    ) -> Iterator[tuple[urllib3.HTTPResponse, dict[str, str]]]:
        self._bucket.take(limit_seconds=max(0.0, deadline - time.monotonic()))
        response = self._asked(call, deadline)
        if response.status == 401 and self.access.token.renew():
            # Nothing was done: who asks is looked at first.
            response.drain_conn()
            response = self._asked(call, deadline)
        try:
            yield response, {name.lower(): value for name, value in response.headers.items()}
        finally:
            # What was read to its end has given its connection back by now; any other cannot be used again.
            response.close()

    def _asked(self, call: ApiCall, deadline: float) -> urllib3.HTTPResponse:
        headers = dict(call.headers)
        if token := self.access.token.token():
            headers["authorization"] = f"Bearer {token}"
        url = self.access.server.rstrip("/") + call.path
        if call.query:
            url += "?" + urlencode(call.query)
        left = max(0.05, deadline - time.monotonic())
        try:
            return self._pool.request(  # type: ignore[return-value]
                call.method,
                url,
                body=call.body,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(self._connect_seconds, left), read=left),
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise unreachable(error, self.access.server) from error

    def close(self) -> None:
        self._pool.clear()


def _read(response: urllib3.HTTPResponse, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        while part := response.read1(CHUNK_BYTES, decode_content=True):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ServerFault(f"The answer is larger than {MOST_BYTES >> 20} MiB.")
            if time.monotonic() > deadline:
                raise ApiUnreachable("The answer did not come to its end in time.")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiUnreachable(f"The answer was cut off: {_short(error)}") from error
    return b"".join(parts)


def _lines(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    """A cut in the middle of a watch is an end like any other, but not one in the middle of a line."""
    rest = b""
    try:
        while part := response.read1(CHUNK_BYTES, decode_content=True):
            rest += part
            *whole, rest = rest.split(b"\n")
            yield from whole
            if len(rest) > MOST_BYTES:
                raise ServerFault(f"A change is larger than {MOST_BYTES >> 20} MiB.")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiUnreachable(f"The watch was cut off: {_short(error)}") from error
    if rest.strip():
        raise ApiUnreachable("The watch was cut off in the middle of a change.")


def unreachable(error: Exception, server: str) -> KubeError:
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return BadConfig(
                f"The certificate of {server} is not to be trusted ({inner.verify_message}): give the "
                f"cluster's "
                "certificate authority, and an address that its certificate has."
            )
        inner = inner.__cause__ or inner.__context__
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return ApiUnreachable(f"{server} takes no connection.")
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return ApiUnreachable(f"{server} does not answer in time.")
    return ApiUnreachable(f"{server} cannot be reached: {_short(error)}")


def _short(error: Exception) -> str:
    """Without the objects that urllib3 names."""
    return str(error).rpartition(">: ")[2].rpartition("): ")[2][:200] or type(error).__name__


def tls_context(access: Access) -> ssl.SSLContext:
    """Raises BadConfig."""
    try:
        context = ssl.create_default_context(cadata=access.authority_pem or None)
    except (ssl.SSLError, ValueError) as error:
        raise BadConfig("The cluster's certificate authority is no certificate.") from error
    # Authorities of clusters are often made without the extensions that Python 3.13 demands of all.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.certificate_pem:
        _load_pair(context, access)
    return context


def _load_pair(context: ssl.SSLContext, access: Access) -> None:
    """Python reads a certificate's key from a file alone: one that is there for as long as that takes."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "pair.pem")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(access.certificate_pem.rstrip() + "\n" + access.key_pem)
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, OSError) as error:
            raise BadConfig("The client certificate and its key do not belong together.") from error


def connect(
    access: Access, *, rate: Rate = ORDINARY, limit_seconds: float = 10.0, judge: Judge | None = None
) -> KubeClient:
    """A client of a real cluster. Asks nothing of it yet. `judge`: see `RealTransport`. Raises BadConfig."""
    return KubeClient(RealTransport(access, rate=rate, judge=judge), limit_seconds=limit_seconds)
