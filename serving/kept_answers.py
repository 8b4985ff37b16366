"""Answers that a worker keeps for a while, so that two versions can be compared on real requests.

The gateway marks the requests whose answers are wanted with a key; only who has the key gets them. They are
in memory alone, at most `MOST_BYTES` of them for `KEPT_SECONDS`. No gateway passes on the path that they are
read at.
"""

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from serving.desk import CLIENT_CLOSED_REQUEST, Desk, Progress

if TYPE_CHECKING:  # services of a team's own code need no Starlette
    from starlette.types import Message, Receive, Scope, Send

MOST_BYTES = 8 * 1024 * 1024
MOST_OF_ONE = 256 * 1024
"""A longer request or answer is not kept."""
KEPT_SECONDS = 120.0
MOST_AT_ONCE = 32
"""Answers that are told at a time."""
_READABLE = ("application/json", "application/problem+json", "text/")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    number: int
    digest: str
    """The same for the same request, whichever worker answers it."""
    key: str
    path: str
    request: str
    code: int
    answer: str
    seconds: float
    worker_seconds: float
    """Its share of the worker's time: seconds in its slot over the number of slots."""
    tokens: int
    """Tokens that were written; 0 where nobody counts them."""
    ended: float

    @property
    def size(self) -> int:
        return len(self.request) + len(self.answer) + 500

    def document(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in (
                "number", "digest", "path", "request", "code", "answer", "seconds", "worker_seconds", "tokens"
            )
        }  # fmt: skip


class KeptAnswers:
    """The newest answers to marked requests. Lives on the worker's event loop."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._kept: deque[KeptAnswer] = deque()
        self._bytes = self._last = 0
        self._session = uuid.uuid4().hex
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, key: str, path: str, request: bytes, code: int, answer: bytes, progress: Progress) -> None:
        """Keep an answer that its client has got in whole."""
        if code == CLIENT_CLOSED_REQUEST or max(len(request), len(answer)) > MOST_OF_ONE:
            return
        self._last += 1
        in_slot = progress.elapsed - (progress.waited or 0.0) if progress.seated_at is not None else 0.0
        one = KeptAnswer(
            number=self._last,
            digest=hashlib.sha256(path.encode() + b"\n" + request).hexdigest()[:32],
            key=key,
            path=path,
            request=request.decode(errors="replace"),
            code=code,
            answer=answer.decode(errors="replace"),
            seconds=round(progress.elapsed, 6),
            worker_seconds=round(in_slot / self._desk.slots, 6),
            tokens=progress.completion_tokens,
            ended=self._clock(),
        )
        self._kept.append(one)
        self._bytes += one.size
        self._forget()

    def told(self, key: str, body: bytes) -> dict[str, Any] | None:
        """Answer who asks with the key: for the oldest answers after a number that ended some seconds ago, or
        for those to the requests with these digests. None: the question makes no sense.
        """
        self._forget()
        mine = [one for one in self._kept if hmac.compare_digest(one.key.encode(), key.encode())]
        try:
            asked = json.loads(body)
            if "digests" in asked:
                wanted: Collection[str] = frozenset(asked["digests"])
                found = [one for one in mine if one.digest in wanted][: 4 * MOST_AT_ONCE]
            else:
                after = int(asked["after"]) if asked["session"] == self._session else 0
                until = self._clock() - float(asked["ended_for"])
                found = [one for one in mine if one.number > after and one.ended <= until][:MOST_AT_ONCE]
        except (ValueError, TypeError, KeyError):
            return None
        return {"session": self._session, "answers": [one.document() for one in found]}

    def _forget(self) -> None:
        """Forget what is too much or too old, now and, without another call, when its time has come."""
        before = self._clock() - KEPT_SECONDS
        while self._kept and (self._bytes > MOST_BYTES or self._kept[0].ended <= before):
            self._bytes -= self._kept.popleft().size
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._kept:
            left = self._kept[0].ended - before
            self._timer = asyncio.get_running_loop().call_later(max(left, 1.0), self._forget)


class ReadAlong:
    """An ASGI answer that is also given, when it was sent in whole, to `keep` with its status and body."""

    def __init__(self, answer: Any, keep: Callable[[int, bytes], None]) -> None:
        self._answer, self._keep = answer, keep

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        code, body = 0, bytearray()

        async def sent(message: "Message") -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            elif message["type"] == "http.response.body":
                if len(body) <= MOST_OF_ONE:
                    body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    self._keep(code, bytes(body))
            await send(message)

        await self._answer(scope, receive, sent)


def readable(kind: str, body: bytes) -> bytes:
    """Return a body that can be compared as text: of pictures and the like their digest."""
    if kind.startswith(_READABLE) or not body:
        return body
    return f"{kind}, {len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}".encode()
