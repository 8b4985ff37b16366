"""How what a server lacks of an upload is cut, sent and asked for again; see `docs/openapi.yaml`.

The one account of that protocol: `slipway models push` sends files of a directory with it, and an export to
another Slipway blobs of its store. Who sends brings the connection, its patience and the words of its errors.
"""

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

REQUEST_SECONDS = 0.25
"""So long a request may take: what is on its way when the sender is killed has to be sent again."""
ROUNDS = 3
"""So often it is asked what is still missing: what the server held when it was asked first may be gone, and
what was damaged on the way comes again.
"""


@dataclass(frozen=True, slots=True)
class ContentPart:
    """Bytes `start` to `stop` of a content of `size`."""

    sha256: str
    size: int
    start: int
    stop: int

    def headers(self, body: bytes) -> dict[str, str]:
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        return {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {self.start}-{self.stop - 1}/{self.size}",
            "Content-Digest": f"sha-256=:{digest}:",
        }


class PartRuns:
    """Missing bytes, handed out in runs of consecutive parts; safe from several threads.

    `upload` is the server's document; a request holds at most `limit` bytes, and at least a part.
    """

    def __init__(self, upload: Mapping[str, Any], *, limit: int | None = None) -> None:
        self._part_bytes: int = upload["part_bytes"]
        # A server that does not name it takes one part at a time.
        told = int(upload.get("request_bytes") or self._part_bytes)
        self._limit = told if limit is None else min(told, limit)
        self._bytes = self._part_bytes
        self._left = list(_missing(upload))[::-1]
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[ContentPart]:
        while True:
            with self._lock:
                if not self._left:
                    return
                run = self._left.pop()
                stop = min(run.start + self._bytes, run.stop)
                if stop < run.stop:
                    self._left.append(replace(run, start=stop))
            yield replace(run, stop=stop)

    def took(self, sent_bytes: int, seconds: float) -> None:
        """Fit the next runs to what the line carries in a moment, and to what one request may hold."""
        carried = sent_bytes * REQUEST_SECONDS / max(seconds, 0.001)
        with self._lock:
            parts = int(min(carried, 2 * self._bytes, self._limit)) // self._part_bytes
            self._bytes = max(1, parts) * self._part_bytes

    def send(self, send: Callable[[ContentPart], None], *, jobs: int, is_over: threading.Event) -> None:
        """All of them, over so many connections; after the first failure, which is raised, `is_over` is set
        and nothing new is begun.
        """

        def work() -> None:
            for part in self:
                if is_over.is_set():
                    return
                began = time.monotonic()
                send(part)
                self.took(part.stop - part.start, time.monotonic() - began)

        if jobs == 1:
            work()
            return
        with ThreadPoolExecutor(jobs) as pool:
            senders = [pool.submit(work) for _ in range(jobs)]
            try:
                done, _ = wait(senders, return_when=FIRST_EXCEPTION)
                for one in done:
                    one.result()
            except BaseException:
                is_over.set()
                raise


def _missing(upload: Mapping[str, Any]) -> Iterator[ContentPart]:
    """The bytes that have not come, as long runs, the largest contents first."""
    for content in sorted(upload["missing"], key=lambda one: -one["size"]):
        start = 0
        for first, last in [*sorted(content["received"]), (content["size"], None)]:
            if start < (stop := min(first, content["size"])):
                yield ContentPart(content["sha256"], content["size"], start, stop)
            start = last + 1 if last is not None else first
