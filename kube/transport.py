"""The transport of requests to a cluster: over the network, or into the fake."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ApiCall:
    method: str
    path: str
    """Begins with a slash; not yet percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    limit_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ApiReply:
    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes


class Transport(Protocol):
    def send(self, call: ApiCall) -> ApiReply:
        """Raises ApiUnreachable, Throttled, BadConfig; every answer of the server is a ApiReply."""

    def stream(self, call: ApiCall) -> AbstractContextManager[tuple[ApiReply, Iterator[bytes]]]:
        """The head of the answer and its lines as they come; the lines of what is no success are in the head.

        `limit_seconds` is the longest silence. Raises as `send`, the iterator too.
        """

    def close(self) -> None: ...
