"""A request over HTTP/1.1 with the way back to its client, and what a server asks of its application."""

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from serving.begun import BEGUN
from serving.runtime.errors import PROBLEM_TYPE, Problem

if TYPE_CHECKING:
    from serving.runtime.http_server import HttpServerConnection

_UNFIT = re.compile(r"[\r\n\0]")
Headers = Mapping[str, str]


class HttpApplication(Protocol):
    """The application behind a server."""

    def identity(self) -> bytes:
        """Header lines that every answer carries."""

    def accept(self, request: "HttpRequest") -> int:
        """The head of a request is there: how many bytes its body may have. Raises Problem."""

    def handle(self, request: "HttpRequest") -> None:
        """The request is whole and waits for its answer."""

    def refuse(self, request: "HttpRequest", problem: Problem) -> None:
        """Answer a request that cannot be accepted, or not be read to its end."""

    def left(self, request: "HttpRequest") -> None:
        """The client left before its request was whole."""


class HttpRequest:
    """A request, and the way back to its client. Nothing is sent once the client is gone.

    `on_gone` is called when the client leaves before the end of its answer, `on_pause` when it is too slow
    for what it is sent (True) and when it has caught up. `context` is the application's own.
    """

    __slots__ = (
        "_connection", "body", "context", "has_begun", "headers", "is_over", "keeps_alive", "method",
        "on_gone", "on_pause", "path", "query", "refusal", "version",
    )  # fmt: skip

    def __init__(self, connection: "HttpServerConnection") -> None:
        self._connection = connection
        self.method = self.path = self.query = ""
        self.version = "1.1"
        self.headers: dict[str, str] = {}
        self.body = b""
        self.keeps_alive = True
        self.has_begun = self.is_over = False
        self.context: Any = None
        self.refusal: Problem | None = None
        self.on_gone: Callable[[], None] | None = None
        self.on_pause: Callable[[bool], None] | None = None

    @property
    def is_paused(self) -> bool:
        """The client is too slow at present."""
        return self._connection.is_paused

    def answer(self, status: int, kind: str, body: bytes, headers: Headers | None = None) -> None:
        """The whole answer."""
        if self.is_over:
            return
        if status in (204, 304):
            self._connection.write(self._head(status, kind, headers) + b"\r\n")
        else:
            head = b"%bcontent-length: %d\r\n\r\n" % (self._head(status, kind, headers), len(body))
            self._connection.write(head, b"" if self.method == "HEAD" else body)
        self._end()

    def answer_problem(self, problem: Problem, headers: Headers | None = None) -> None:
        self.answer(problem.status, PROBLEM_TYPE, json.dumps(problem.document()).encode(), headers)

    def interim(self) -> None:
        """`100 Continue`, which tells a gateway that the work has begun (`serving.begun`)."""
        if not self.is_over and self.version == "1.1":
            self._connection.write(BEGUN)

    def begin(self, status: int, kind: str, headers: Headers | None = None) -> None:
        """An answer in pieces."""
        if self.is_over:
            return
        self.has_begun = True
        if self.version == "1.1":
            self._connection.write(self._head(status, kind, headers) + b"transfer-encoding: chunked\r\n\r\n")
        else:
            self.keeps_alive = False
            self._connection.write(self._head(status, kind, headers) + b"\r\n")

    def piece(self, data: bytes) -> None:
        if data and not self.is_over:
            chunked = self.version == "1.1"
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)

    def end(self) -> None:
        """The last piece was sent."""
        if not self.is_over:
            if self.version == "1.1":
                self._connection.write(b"0\r\n\r\n")
            self._end()

    def _head(self, status: int, kind: str, headers: Headers | None) -> bytes:
        server = self._connection.server
        if server.is_draining:
            self.keeps_alive = False
        key = (status, kind, self.keeps_alive)
        head = server.heads.get(key) or server.add_head(*key)
        return head + header_lines(headers) if headers else head

    def _end(self) -> None:
        self.is_over = True
        self.on_gone = self.on_pause = None
        self._connection.answered(self)


def header_lines(headers: Headers) -> bytes:
    """Write the headers; what would break the head is left out."""
    fit = [f"{name}: {value}\r\n" for name, value in headers.items() if not _UNFIT.search(name + value)]
    return "".join(fit).encode("latin-1", "replace")
