"""Sending what a server lacks of some files: several parts at once, going on after what got lost."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from slipway.client import ApiPath, Client, Document, ServerRefused, ServerUnreachable, at
from slipway.exits import CommandFailed, Exit
from slipway.hashing import HashedFile, HashMemory
from slipway.runs import ROUNDS, ContentPart, PartRuns

Answer = TypeVar("Answer")

JOBS = 4
PATIENCE_SECONDS = 300.0
"""For a server that takes nothing."""
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 20.0
PASSING = frozenset({408, 425, 429, 500})
"""Answers that another try may change; 502, 503 and 504 are `ServerUnreachable`."""


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
        except ServerRefused as refused:
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

        def send(part: ContentPart) -> None:
            self._send(address, part)
            counted(part.stop - part.start)

        for _ in range(ROUNDS):
            if not upload["missing"]:
                break
            PartRuns(upload).send(send, jobs=self._jobs, is_over=self._is_over)
            upload = self._keep(lambda: self._client.get(address))
        return upload

    def complete(self, upload: Document, body: dict[str, Any]) -> Document:
        """The version."""
        address = self._uploads.below(upload["id"], "complete")
        return self._keep(lambda: self._client.create(address, body))

    def _send(self, address: ApiPath, part: ContentPart) -> None:
        content = self._files[part.sha256]
        body = _read(content, part)
        try:
            blob = address.below("blobs", part.sha256)
            self._keep(lambda: self._client.put_bytes(blob, body, part.headers(body)))
        except ServerRefused as refused:
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
            except (ServerUnreachable, ServerRefused) as error:
                if isinstance(error, ServerRefused) and error.status not in PASSING:
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


def _read(content: HashedFile, part: ContentPart) -> bytes:
    file = content.file
    try:
        with file.location.open("rb") as opened:
            opened.seek(part.start)
            body = opened.read(part.stop - part.start)
    except OSError as error:
        raise CommandFailed(f"{file.location} cannot be read: {error.strerror}.", Exit.FAILED) from None
    if len(body) != part.stop - part.start:
        raise CommandFailed(f"{file.path} changed during the upload. Push again.", Exit.FAILED)
    return body
