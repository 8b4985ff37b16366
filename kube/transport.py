"""How requests get to a cluster: over the network, or into the fake."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    """Begins with a slash; not yet percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    limit_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes


class Transport(Protocol):
    def send(self, call: Call) -> Reply:
        """Raises Unreachable, Throttled, BadConfig; every answer of the server is a Reply."""

    def stream(self, call: Call) -> AbstractContextManager[tuple[Reply, Iterator[bytes]]]:
        """The head of the answer and its lines as they come; the lines of what is no success are in the head.

        `limit_seconds` is the longest silence. Raises as `send`, the iterator too.
        """

    def close(self) -> None: ...
