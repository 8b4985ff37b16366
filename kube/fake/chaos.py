"""Faults between a cluster and its clients, to order: one mishap a call, and one a watch."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from enum import StrEnum

from kube.errors import ApiUnreachable
from kube.fake.refusals import RequestRefused
from kube.fake.server import FakeApiServer
from kube.fake.wire import ADMIN, ApiRequest, ApiResponse, RequestUser, refusal
from kube.transport import ApiCall

RETRY_AFTER_SECONDS = 7.0


class Mishap(StrEnum):
    """A mishap of one call. Where it cannot happen to a call (a conflict of a GET), nothing does."""

    AWAY = "nobody answers, and nothing was done"
    RESTARTED = "the API server begins anew, and has forgotten what changed before"
    OVERLOADED = "429 with Retry-After"
    FAILED = "500"
    UNAVAILABLE = "503"
    EXPIRED = "401"
    CONFLICT = "409 of a write"
    REFUSED = "422 of a write"
    FORGOTTEN = "410 of a list or a watch"
    LOST = "done, and the answer is lost or too slow"
    LATE = "too slow: done after others that are asked later"


class WatchFault(StrEnum):
    """A fault of one watch."""

    CUT = "cut after the first change"
    ENDS = "ends after the first change"
    DOUBLED = "every change twice"
    SWAPPED = "neighbours in the wrong order"
    FORGOTTEN = "410 after the first change"
    EXPIRED = "401 after the first change"


ANSWERS = {
    Mishap.OVERLOADED: RequestRefused(
        429, "TooManyRequests", "too many requests", headers={"retry-after": f"{RETRY_AFTER_SECONDS:g}"}
    ),
    Mishap.FAILED: RequestRefused(500, "InternalError", "etcdserver: request timed out"),
    Mishap.UNAVAILABLE: RequestRefused(503, "ServiceUnavailable", "etcdserver: leader changed"),
    Mishap.EXPIRED: RequestRefused(401, "Unauthorized", "Unauthorized"),
    Mishap.CONFLICT: RequestRefused(
        409, "Conflict", "Operation cannot be fulfilled: the object has been modified"
    ),
    Mishap.REFUSED: RequestRefused(422, "Invalid", "admission webhook denied the request"),
    Mishap.FORGOTTEN: RequestRefused(410, "Expired", "too old resource version"),
}


class Chaos:
    """A Fault of a FakeTransport, whose watches `spoil` spoils. What is not to come any more goes well."""

    def __init__(
        self,
        server: FakeApiServer,
        *,
        user: RequestUser = ADMIN,
        calls: Iterable[Mishap | None] = (),
        watches: Iterable[WatchFault | None] = (),
    ) -> None:
        self._server = server
        self._user = user
        self.calls = deque(calls)
        self.watches = deque(watches)
        self.late_by = 3
        """So many others are served before one that nobody waits for any more."""
        self._late: list[tuple[int, ApiCall]] = []

    def __call__(self, call: ApiCall) -> ApiResponse | None:
        self._serve_due()
        mishap = self.calls.popleft() if self.calls else None
        if mishap is None or not _can_happen(mishap, call):
            return None
        if mishap in ANSWERS:
            return refusal(ANSWERS[mishap])
        if mishap is Mishap.RESTARTED:
            self._server.storage.compact()
        elif mishap is Mishap.LOST:
            self._serve(call)
        elif mishap is Mishap.LATE and call.method != "GET":
            self._late.append((self.late_by, call))
        raise ApiUnreachable(f"The cluster does not answer: {mishap}.")

    def calm(self) -> None:
        """Nothing more goes wrong; what is late still comes."""
        self.calls.clear()
        self.watches.clear()

    def serve_late(self) -> None:
        """All of it, now."""
        late, self._late = self._late, []
        for _, call in late:
            self._serve(call)

    def spoil(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        spoiling = self.watches.popleft() if self.watches else None
        if spoiling is None:
            yield from lines
        elif spoiling is WatchFault.DOUBLED:
            for line in lines:
                yield from (line, line)
        elif spoiling is WatchFault.SWAPPED:
            yield from _swapped(lines)
        else:
            yield from _stopped(lines, spoiling)

    def _serve_due(self) -> None:
        due = [call for left, call in self._late if left == 0]
        self._late = [(left - 1, call) for left, call in self._late if left]
        for call in due:
            self._serve(call)

    def _serve(self, call: ApiCall) -> None:
        self._server.handle(
            ApiRequest(call.method, call.path, call.query, call.headers, call.body or b"", self._user)
        )


def _can_happen(mishap: Mishap, call: ApiCall) -> bool:
    if mishap in (Mishap.CONFLICT, Mishap.REFUSED):
        return call.method != "GET"
    return mishap is not Mishap.FORGOTTEN or "limit" in call.query or "watch" in call.query


def _swapped(lines: Iterator[bytes]) -> Iterator[bytes]:
    for first in lines:
        second = next(lines, None)
        yield from (first,) if second is None else (second, first)


def _stopped(lines: Iterator[bytes], how: WatchFault) -> Iterator[bytes]:
    for line in lines:
        yield line
        if how is WatchFault.CUT:
            raise ApiUnreachable("The watch was cut off.")
        if how in (WatchFault.FORGOTTEN, WatchFault.EXPIRED):
            refused = ANSWERS[Mishap.FORGOTTEN if how is WatchFault.FORGOTTEN else Mishap.EXPIRED]
            yield json.dumps({"type": "ERROR", "object": refused.body()}).encode()
        return
