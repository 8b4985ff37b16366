"""Sending what a server lacks of some files: in parts, several at once, going on after what got lost."""

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from slipway.client import Address, Client, Document, Refused, Unreachable, at
from slipway.exits import CommandFailed, Exit
from slipway.hashing import HashedFile, HashMemory

Answer = TypeVar("Answer")

JOBS = 4
REQUEST_SECONDS = 0.25
"""So long a request may take: what is on its way when the push is killed has to be sent again."""
ROUNDS = 3
"""So often it is asked what is still missing: what the server held when it was asked first may be gone."""
PATIENCE_SECONDS = 300.0
"""For a server that takes nothing."""
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 20.0
PASSING = frozenset({408, 425, 429, 500})
"""Answers that another try may change; 502, 503 and 504 are `Unreachable`."""


@dataclass(frozen=True, slots=True)
class Part:
    content: HashedFile
    start: int
    stop: int


class Runs:
    """What is missing, handed out in runs of parts that follow one another; safe from several threads."""

    def __init__(self, upload: Document, files: dict[str, HashedFile]) -> None:
        self._part_bytes: int = upload["part_bytes"]
        # A server that does not name it takes one part at a time.
        self._limit = int(upload.get("request_bytes") or self._part_bytes)
        self._bytes = self._part_bytes
        self._left = list(_missing(upload, files))[::-1]
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Part]:
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


class Sender:
    """Sends parts of one upload."""

    def __init__(
        self,
        client: Client,
        model: str,
        files: Sequence[HashedFile],
        *,
        memory: HashMemory,
        jobs: int,
        sleep: Callable[[float], None],
    ) -> None:
        self._client = client
        self._uploads = at("models", model, "uploads")
        self._files = {one.sha256: one for one in files}
        self._listed = [one.as_json() for one in files]
        self._memory = memory
        self._jobs = jobs
        self._sleep = sleep
        self._lock = threading.Lock()
        self._waited = 0.0
        self._is_over = threading.Event()

    def begin(self, origin: str) -> Document:
        """The upload: a new one, or what an earlier push of the same files has left."""
        try:
            return self._client.create(self._uploads, {"files": self._listed, "origin": origin})
        except Refused as refused:
            if "files" in refused.problem.get("errors", {}):
                raise CommandFailed(str(refused), Exit.FAILED) from None
            raise

    def doubts(self, upload: Document) -> bool:
        """Whether files have to be read again: a version was to be made of the upload, and some contents were
        not what was announced.
        """
        if upload["version"] is None or not upload["missing"]:
            return False
        for content in upload["missing"]:
            self._memory.forget(self._files[content["sha256"]].file)
        return True

    def cancel(self, upload: Document, *, reason: str) -> None:
        self._client.post(self._uploads.below(upload["id"], "cancel"), {"reason": reason})

    def send(self, upload: Document, *, counted: Callable[[int], None]) -> Document:
        """Send all that is missing; the upload afterwards. `counted` hears of bytes that have arrived.

        Raises CommandFailed.
        """
        address = self._uploads.below(upload["id"])
        for _ in range(ROUNDS):
            if not upload["missing"]:
                break
            self._send_all(address, Runs(upload, self._files), counted)
            upload = self._keep(lambda: self._client.get(address))
        return upload

    def complete(self, upload: Document, body: dict[str, Any]) -> Document:
        """The version."""
        address = self._uploads.below(upload["id"], "complete")
        return self._keep(lambda: self._client.create(address, body))

    def _send_all(self, address: Address, runs: Runs, counted: Callable[[int], None]) -> None:
        def send() -> None:
            for part in runs:
                if self._is_over.is_set():
                    return
                began = time.monotonic()
                self._send(address, part)
                runs.took(part.stop - part.start, time.monotonic() - began)
                counted(part.stop - part.start)

        if self._jobs == 1:
            send()
            return
        with ThreadPoolExecutor(self._jobs) as pool:
            senders = [pool.submit(send) for _ in range(self._jobs)]
            try:
                done, _ = wait(senders, return_when=FIRST_EXCEPTION)
                for one in done:
                    one.result()
            except BaseException:
                self._is_over.set()
                raise

    def _send(self, address: Address, part: Part) -> None:
        content, body = part.content, _read(part)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {part.start}-{part.stop - 1}/{content.file.size}",
            "Content-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:",
        }
        try:
            blob = address.below("blobs", content.sha256)
            self._keep(lambda: self._client.put_bytes(blob, body, headers))
        except Refused as refused:
            if refused.status == 409:
                # What was remembered of the file may be wrong; the next push reads it.
                self._memory.forget(content.file)
            message = f"{content.file.path}: {refused}"
            raise CommandFailed(message, refused.exit) from None

    def _keep(self, work: Callable[[], Answer]) -> Answer:
        """Repeat what fails for the moment, until nothing has succeeded for so long, on any connection."""
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            try:
                answer = work()
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.status not in PASSING:
                    raise
                if self._is_over.is_set() or not self._may_wait(seconds := error.retry_after_s or pause):
                    raise
                self._sleep(seconds)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                with self._lock:
                    self._waited = 0.0
                return answer

    def _may_wait(self, seconds: float) -> bool:
        with self._lock:
            # Several connections wait at once.
            self._waited += seconds / self._jobs
            return self._waited <= PATIENCE_SECONDS


def _missing(upload: Document, files: dict[str, HashedFile]) -> Iterator[Part]:
    """The bytes that have not come, as long runs, the largest contents first."""
    for content in sorted(upload["missing"], key=lambda one: -one["size"]):
        start = 0
        for first, last in [*sorted(content["received"]), (content["size"], None)]:
            if start < first:
                yield Part(files[content["sha256"]], start, first)
            start = last + 1 if last is not None else first


def _read(part: Part) -> bytes:
    file = part.content.file
    try:
        with file.location.open("rb") as content:
            content.seek(part.start)
            body = content.read(part.stop - part.start)
    except OSError as error:
        raise CommandFailed(f"{file.location} cannot be read: {error.strerror}.", Exit.FAILED) from None
    if len(body) != part.stop - part.start:
        raise CommandFailed(f"{file.path} changed during the upload. Push again.", Exit.FAILED)
    return body
