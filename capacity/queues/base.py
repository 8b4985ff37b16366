"""A queue seen from outside: how much waits there, and what the kind of source can tell beyond that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from common.errors import SlipwayError

WITHIN_SECONDS = 4.0
"""For one look at a queue."""


class QueueSilent(SlipwayError):
    """The queue does not answer, or not as one of its kind does; the message says why."""


@dataclass(frozen=True)
class QueueSample:
    """A queue at one moment.

    waiting: items that nobody works on. in_hand: items that workers have and have not finished. arrived:
    items that ever came, a counter; None: the source does not tell.
    """

    waiting: float
    in_hand: float = 0.0
    arrived: float | None = None

    @property
    def unfinished(self) -> float:
        return self.waiting + self.in_hand


@dataclass(frozen=True)
class QueueAddress:
    """The place of a queue. subject: key, query, region or topic. consumer_group: of a stream or topic.
    secret: in the clear."""

    url: str = ""
    subject: str = ""
    consumer_group: str = ""
    secret: str = ""


class QueueSource(Protocol):
    """A queue as its kind reads it."""

    def sample(self) -> QueueSample:
        """Look once, within `WITHIN_SECONDS`. Raises QueueSilent."""


@dataclass(frozen=True)
class QueueKindSpec:
    """Demands of a kind of source. tells_arrivals: its samples count what ever came."""

    open: Callable[[QueueAddress], QueueSource]
    schemes: tuple[str, ...]
    needs_subject: bool = True
    needs_group: bool = False
    tells_arrivals: bool = False
