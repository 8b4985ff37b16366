"""The control plane as the machines of a cluster see it: a list of files, and their bytes by ranges."""

import http.client
import json
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from serving.fetch.errors import Refused, Unreachable, WrongContent

WINDOW_BYTES = 8 * 1024 * 1024
"""Of one request. In memory: at the most as many of them as there are connections, and `SPARE_WINDOWS`."""
SPARE_WINDOWS = 4
TIMEOUT_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 15.0
MOST_REDIRECTS = 3
MOST_LIST_BYTES = 256 * 1024 * 1024
_PIECE_BYTES = 256 * 1024
_LATER = {408, 425, 429, 500, 502, 503, 504}
_NO_ANSWER = (OSError, http.client.HTTPException)

Say = Callable[[str], None]


class _Later(Exception):
    """The call did not work now; the message says why, `seconds` how long to wait at least."""

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class ControlPlane:
    """Safe to use from several threads. What does not answer is asked again, until nothing has come from it
    for `patience_seconds`: Unreachable.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        connections: int = 8,
        patience_seconds: float = 300.0,
        say: Say = lambda _: None,
        path: str = "/api/v1/model-files/",
    ) -> None:
        self._base = url.rstrip("/") + path
        self._token = token
        self._patience_seconds = patience_seconds
        self._say = say
        self._heard = time.monotonic()
        self._local = threading.local()
        self._ssl = ssl.create_default_context() if urlsplit(url).scheme == "https" else None
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="window")
        self._windows = threading.Semaphore(connections + SPARE_WINDOWS)
        self.closed = False

    def files_of(self, version_id: int) -> Mapping[str, Any]:
        """Return what the control plane tells of the version, as it tells it."""
        body = self._patiently(lambda come: self._read(f"{version_id}/", come, None))
        try:
            told = json.loads(body)
            assert isinstance(told["files"], list)  # noqa: S101 - told in words below
        except (ValueError, KeyError, TypeError, AssertionError):
            raise Refused(
                f"{self._base} answers something else than a list of files. Is --url the address of Slipway?"
            ) from None
        return dict(told)

    def content(self, version_id: int, sha256: str, size: int, start: int) -> Iterator[bytes]:
        """The bytes of a file from `start` on, in order, while several windows are on their way."""
        path, offsets = f"{version_id}/{sha256}/", deque(range(start, size, WINDOW_BYTES))
        coming: deque[Future[bytearray]] = deque()
        try:
            while offsets or coming:
                # One at least, or those that wait for each other's windows would wait for ever.
                while offsets and self._windows.acquire(blocking=not coming):
                    first = offsets.popleft()
                    coming.append(
                        self._pool.submit(self._window, path, first, min(size, first + WINDOW_BYTES))
                    )
                try:
                    # Its buffer is the caller's now: nobody writes to it any more.
                    yield coming.popleft().result()  # type: ignore[misc]
                finally:
                    self._windows.release()
        finally:
            for one in coming:
                one.cancel()
                self._windows.release()

    def close(self) -> None:
        self.closed = True
        self._pool.shutdown(cancel_futures=True)

    def _window(self, path: str, first: int, end: int) -> bytearray:
        return self._patiently(lambda come: self._read(path, come, (first + len(come), end)))

    def _patiently(self, read: Callable[[bytearray], None]) -> bytearray:
        """`read` adds to what has come; it goes on from there after each cut."""
        come, pause, began, is_first = bytearray(), 0.5, time.monotonic(), True
        while True:
            before = len(come)
            try:
                read(come)
                self._heard = time.monotonic()
                return come
            except _Later as error:
                why, least = str(error), error.seconds
            except _NO_ANSWER as error:
                self._forget_connection()
                if is_first and isinstance(error, http.client.RemoteDisconnected | BrokenPipeError):
                    # Most likely a connection that was kept, and had grown too old.
                    is_first = False
                    continue
                why, least = f"{urlsplit(self._base).netloc} does not answer: {_words(error)}", 0.0
            if len(come) > before:
                self._heard, pause = time.monotonic(), 0.5
            silent = time.monotonic() - max(self._heard, began)
            wait = max(least, pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads, hides nothing
            if self.closed or silent + wait > self._patience_seconds:
                raise Unreachable(
                    f"{why} Nothing has come for {silent:.0f} s. Look at the address (store_url of the "
                    "cluster), at the network between this machine and it, and at its logs. What has come "
                    "is kept."
                )
            self._say(f"{why} Trying again in {wait:.1f} s.")
            time.sleep(wait)
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)

    def _read(self, path: str, come: bytearray, span: tuple[int, int] | None) -> None:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "slipway-fetch"}
        if span is not None:
            headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
        answer, address = self._ask(urljoin(self._base, path), headers)
        if answer.status not in (200, 206):
            self._explain(answer, address)
        if span is None:
            come.clear()
            self._take(answer, come, MOST_LIST_BYTES)
            return
        told = answer.getheader("Content-Range", "")
        if answer.status != 206 or not told.startswith(f"bytes {span[0]}-{span[1] - 1}/"):
            self._forget_connection()
            raise Refused(
                f"{address.netloc} was asked for bytes {span[0]} to {span[1] - 1} and sent {told or 'all'}. "
                "Something between this machine and Slipway does not pass the header Range on."
            )
        self._take(answer, come, len(come) + span[1] - span[0])

    def _take(self, answer: http.client.HTTPResponse, come: bytearray, most: int) -> None:
        while piece := answer.read1(_PIECE_BYTES):
            if len(come) + len(piece) > most:
                self._forget_connection()
                raise WrongContent("More bytes came than were asked for.")
            come += piece
            self._heard = time.monotonic()
        if answer.length:
            self._forget_connection()
            raise _Later("The answer broke off.")
        # `read1` leaves that to us, and the connection to the next request.
        answer.close()

    def _ask(self, url: str, headers: Mapping[str, str]) -> tuple[http.client.HTTPResponse, SplitResult]:
        """The answer and who gave it. The token goes to the control plane alone: where that sends us to, the
        address itself is what opens.
        """
        home = urlsplit(self._base)
        for _ in range(MOST_REDIRECTS):
            address = urlsplit(url)
            is_home = (address.scheme, address.netloc) == (home.scheme, home.netloc)
            given = {**headers, "Authorization": f"Bearer {self._token}"} if is_home else headers
            connection = self._connection(address)
            connection.request("GET", address._replace(scheme="", netloc="").geturl(), headers=dict(given))
            answer = connection.getresponse()
            place = answer.getheader("Location", "")
            if answer.status not in (301, 302, 303, 307, 308) or not place:
                return answer, address
            answer.read()
            url = urljoin(url, place)
            if urlsplit(url).scheme not in ("http", "https") or (
                home.scheme == "https" and urlsplit(url).scheme != "https"
            ):
                raise Refused(f"{address.netloc} redirects to an address that is not https. Look at --url.")
        raise Refused(f"{home.netloc} redirects again and again. Is --url the address of Slipway?")

    def _connection(self, address: SplitResult) -> http.client.HTTPConnection:
        kept: dict[str, http.client.HTTPConnection] = self._local.__dict__.setdefault("connections", {})
        place = f"{address.scheme}://{address.netloc}"
        if place not in kept:
            host = address.hostname or ""
            if address.scheme == "https":
                context = self._ssl or ssl.create_default_context()
                kept[place] = http.client.HTTPSConnection(
                    host, address.port, timeout=TIMEOUT_SECONDS, context=context
                )
            else:
                kept[place] = http.client.HTTPConnection(host, address.port, timeout=TIMEOUT_SECONDS)
        return kept[place]

    def _forget_connection(self) -> None:
        for connection in self._local.__dict__.pop("connections", {}).values():
            connection.close()

    def _explain(self, answer: http.client.HTTPResponse, address: SplitResult) -> None:
        """Raises what an answer other than the wanted one means."""
        body = answer.read(20_000)
        self._forget_connection()
        try:
            detail = str(json.loads(body)["detail"])[:600]
        except (ValueError, KeyError, TypeError):
            detail = ""
        said = f"{address.netloc} answers {answer.status}{f': {detail}' if detail else '.'}"
        if answer.status in _LATER:
            least = answer.getheader("Retry-After", "")
            raise _Later(said, min(float(least), 60.0) if least.isdecimal() else 0.0)
        raise Refused(f"{said}{_WHAT_NOW.get(answer.status, '')}")


_WHAT_NOW = {
    401: " Renew the cluster's token for model files and its secret, then start the pod anew.",
    403: " Put the cluster's own token for model files into its secret, then start the pod anew.",
    404: " Is the deployment removed, or --url not the address of Slipway?",
    416: " The file is shorter there than its list says: check the model store.",
}


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here ({error.verify_message})."
    if isinstance(error, TimeoutError):
        return f"nothing came for {TIMEOUT_SECONDS:g} s."
    said = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    return f"{said.rstrip('.')}."
