"""The fake API server as a transport: for a KubeClient, with tokens, and faults to order."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from kube.client import PAGE_ITEMS, KubeClient
from kube.errors import ApiUnreachable
from kube.fake.refusals import RequestRefused
from kube.fake.server import FakeApiServer
from kube.fake.watching import WatchStream
from kube.fake.wire import ADMIN, ApiRequest, ApiResponse, RequestUser, refusal
from kube.transport import ApiCall, ApiReply

Fault = Callable[[ApiCall], ApiResponse | None]
"""What to answer in the server's place; None: nothing. May raise ApiUnreachable."""


class FakeTransport:
    """`faults` are asked first, in order. `reachable` False: nothing gets there.

    A watch waits for changes in real time, `longest_watch_seconds` at most, whatever time it was asked for.
    """

    def __init__(
        self, server: FakeApiServer, *, user: RequestUser = ADMIN, longest_watch_seconds: float = 0.05
    ) -> None:
        self.server = server
        self.user = user
        self.reachable = True
        self.longest_watch_seconds = longest_watch_seconds
        self.faults: list[Fault] = []
        self.spoil: Callable[[Iterator[bytes]], Iterator[bytes]] = iter
        """What becomes of the lines of a watch on their way."""
        self.calls: list[ApiCall] = []

    def send(self, call: ApiCall) -> ApiReply:
        answer = self._faulty(call) or self.server.handle(self._request(call))
        if isinstance(answer, WatchStream):
            raise AssertionError("a watch is streamed")
        return ApiReply(answer.status, answer.headers, answer.as_bytes())

    def _faulty(self, call: ApiCall) -> ApiResponse | None:
        self.calls.append(call)
        if not self.reachable:
            raise ApiUnreachable("The cluster does not answer.")
        for fault in self.faults:
            if (answer := fault(call)) is not None:
                return answer
        return None

    def _request(self, call: ApiCall) -> ApiRequest:
        return ApiRequest(call.method, call.path, call.query, call.headers, call.body or b"", self.user)

    @contextmanager
    def stream(self, call: ApiCall) -> Iterator[tuple[ApiReply, Iterator[bytes]]]:
        answer = self._faulty(call) or self.server.handle(self._request(call))
        if isinstance(answer, WatchStream):
            yield ApiReply(200, {}, b""), self.spoil(self._lines(answer))
        else:
            yield ApiReply(answer.status, answer.headers, answer.as_bytes()), iter(())

    def _lines(self, watch: WatchStream) -> Iterator[bytes]:
        storage = self.server.storage
        deadline = time.monotonic() + min(watch.limit_seconds or inf, self.longest_watch_seconds)
        while True:
            with storage.changed:
                events = watch.events()
                left = deadline - time.monotonic()
                if not events and not watch.has_ended and left > 0 and self.reachable:
                    storage.changed.wait(left)
            if not self.reachable:
                raise ApiUnreachable("The watch was cut off.")
            if not events and not watch.has_ended and left <= 0:
                events = watch.end()
            yield from (json.dumps(event).encode() for event in events)
            if watch.has_ended:
                return

    def close(self) -> None:
        pass


def failing(status: int, message: str, *, reason: str = "", times: int = 1) -> Fault:
    """Answer so many calls with this Status."""
    left = [times]

    def fault(_: ApiCall) -> ApiResponse | None:
        if left[0] <= 0:
            return None
        left[0] -= 1
        return refusal(RequestRefused(status, reason, message))

    return fault


def after_doing(server: FakeApiServer, user: RequestUser, *, times: int = 1) -> Fault:
    """Do what was asked, and lose the answer."""
    left = [times]

    def fault(call: ApiCall) -> ApiResponse | None:
        if left[0] <= 0:
            return None
        left[0] -= 1
        server.handle(ApiRequest(call.method, call.path, call.query, call.headers, call.body or b"", user))
        raise ApiUnreachable("The answer was lost.")

    return fault


class OnlyAt:
    """A fault of one call: number `at` of those that come here, from 1."""

    def __init__(self, at: int, fault: Fault) -> None:
        self.at = at
        self.calls = 0
        self._fault = fault

    def __call__(self, call: ApiCall) -> ApiResponse | None:
        self.calls += 1
        return self._fault(call) if self.calls == self.at else None

    @property
    def is_over(self) -> bool:
        """There were so many calls."""
        return self.calls >= self.at


def pausing(at: int, meanwhile: Callable[[], None]) -> OnlyAt:
    """Before its call number `at`, whoever calls sleeps past its lease, and others go on."""

    def pause(_: ApiCall) -> None:
        meanwhile()

    return OnlyAt(at, pause)


def client_of(
    server: FakeApiServer, user: RequestUser = ADMIN, *, page_items: int = PAGE_ITEMS
) -> KubeClient:
    return KubeClient(FakeTransport(server, user=user), page_items=page_items)
