"""The types of events that can be sent. What they are called and hold, the composition root says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Told:
    """What an event has to say."""

    team_id: int | None
    """Whose it is; None: only the installation's endpoints hear it."""
    data: Mapping[str, Any]
    """As it is sent: ids, and the document that REST shows."""


@dataclass(frozen=True, slots=True)
class EventType:
    name: str
    """`release.ended`"""
    says: str
    """One sentence."""
    tell: Callable[[Mapping[str, Any]], Told | None]
    """From the ids that were noted; None when there is nothing to tell any more."""


_types: dict[str, EventType] = {}


def declare(event_type: EventType) -> None:
    _types[event_type.name] = event_type


def known() -> Mapping[str, EventType]:
    """By name, in the order of their declaration."""
    return _types
