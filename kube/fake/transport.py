"""The fake API server as a transport: for a KubeClient, with tokens, and faults to order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from kube.client import KubeClient
from kube.errors import Unreachable
from kube.fake.refusals import Refused
from kube.fake.server import FakeApiServer
from kube.fake.wire import Answer, Request, User, refusal
from kube.transport import Call, Reply

Fault = Callable[[Call], Answer | None]
"""What to answer in the server's place; None: nothing. May raise Unreachable."""


class FakeTransport:
    """`faults` are asked first, in order. `reachable` False: nothing gets there."""

    def __init__(self, server: FakeApiServer, *, user: User) -> None:
        self.server = server
        self.user = user
        self.reachable = True
        self.faults: list[Fault] = []
        self.calls: list[Call] = []

    def send(self, call: Call) -> Reply:
        answer = self._faulty(call) or self.server.handle(self._request(call))
        return Reply(answer.status, answer.headers, answer.as_bytes())

    def _faulty(self, call: Call) -> Answer | None:
        self.calls.append(call)
        if not self.reachable:
            raise Unreachable("The cluster does not answer.")
        for fault in self.faults:
            if (answer := fault(call)) is not None:
                return answer
        return None

    def _request(self, call: Call) -> Request:
        return Request(call.method, call.path, call.query, call.headers, call.body or b"", self.user)

    @contextmanager
    def stream(self, call: Call) -> Iterator[tuple[Reply, Iterator[bytes]]]:
        reply = self.send(replace(call))
        yield Reply(reply.status, reply.headers, reply.body), iter(reply.body.splitlines())

    def close(self) -> None:
        pass


def failing(status: int, message: str, *, reason: str = "", times: int = 1) -> Fault:
    """So many answers are this Status."""
    left = [times]

    def fault(_: Call) -> Answer | None:
        if left[0] <= 0:
            return None
        left[0] -= 1
        return refusal(Refused(status, reason, message))

    return fault


def after_doing(server: FakeApiServer, user: User, *, times: int = 1) -> Fault:
    """What was asked is done, and its answer is lost."""
    left = [times]

    def fault(call: Call) -> Answer | None:
        if left[0] <= 0:
            return None
        left[0] -= 1
        server.handle(Request(call.method, call.path, call.query, call.headers, call.body or b"", user))
        raise Unreachable("The answer was lost.")

    return fault


def client_of(server: FakeApiServer, user: User, **options: object) -> KubeClient:
    return KubeClient(FakeTransport(server, user=user), **options)  # type: ignore[arg-type]
