"""For whom and about what something is done, known wherever it is logged.

A request has an id and an actor. Both go along with what it asks for: with the task that it rings, and in
the column `origin` of the rows that it makes or wakes, so that a step that is taken days later, by another
process, still says which request it goes back to.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from common import tracing

PACKED_LENGTH = 300
"""Characters of an origin at most: those of a request id, of a traceparent, a time and a username."""
NONE = "-"


@dataclass(slots=True)
class RequestOrigin:
    """The request that work goes back to."""

    request_id: str = NONE
    actor: str = ""
    """Name; empty while nobody has asked who it is."""
    traceparent: str = ""
    """W3C's, of the span that asked; empty when nothing is traced."""
    at: int = 0
    """Unix time."""

    def packed(self) -> str:
        """Return the origin as text that `unpacked` reads."""
        if self.request_id == NONE and not self.traceparent:
            return ""
        text = f"{self.request_id} {self.traceparent or NONE} {self.at} {self.actor}"
        return text[:PACKED_LENGTH]


def unpacked(text: str) -> RequestOrigin:
    """Read what `RequestOrigin.packed` wrote; anything else gives an origin that says nothing."""
    parts = text.split(" ", 3)
    if len(parts) != 4 or not parts[2].isdecimal():
        return RequestOrigin()
    return RequestOrigin(parts[0], parts[3], "" if parts[1] == NONE else parts[1], int(parts[2]))


_origin: ContextVar[RequestOrigin | None] = ContextVar("origin", default=None)
_subject: ContextVar[Mapping[str, Any]] = ContextVar("subject", default={})  # noqa: B039  # never changed
_role = ""


def act_as(role: str) -> None:
    """Name this process's role, such as `web`, on every line from now on, and in what it forks."""
    global _role
    _role = role


def role() -> str:
    return _role


def current() -> RequestOrigin:
    """Return the origin of the present work; one that says nothing outside a request and what it woke."""
    return _origin.get() or RequestOrigin()


def subject() -> Mapping[str, Any]:
    """The row whose step is being taken: `kind`, `id`, and what else its kind tells of it."""
    return _subject.get()


def note_actor(name: str) -> None:
    """Who asks, as soon as it is known."""
    if (origin := _origin.get()) is not None:
        origin.actor = name


def origin_now() -> str:
    """Packed, of what is done at this moment: what a row keeps that is made or woken now."""
    origin = _origin.get()
    if origin is None:
        return ""
    if current := tracing.traceparent():
        return RequestOrigin(origin.request_id, origin.actor, current, int(time.time())).packed()
    return origin.packed()


@contextmanager
def asked(request_id: str) -> Iterator[RequestOrigin]:
    """While a request is answered."""
    origin = RequestOrigin(request_id, at=int(time.time()))
    token = _origin.set(origin)
    try:
        yield origin
    finally:
        _origin.reset(token)


@contextmanager
def on_behalf_of(packed: str, subject: Mapping[str, Any] | None = None) -> Iterator[None]:
    """While something is done that a request, perhaps long over, has asked for."""
    origin_token = _origin.set(unpacked(packed) if packed else None)
    subject_token = _subject.set(subject or {})
    try:
        yield
    finally:
        _subject.reset(subject_token)
        _origin.reset(origin_token)
