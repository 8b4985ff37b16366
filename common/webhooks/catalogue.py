"""The types of events that can be sent to webhooks: apps offer them in their manifests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from common.events import witness
from common.languages import Text

Ids = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventPayload:
    """Payload of an event."""

    team_id: int | None
    """Whose it is; None: only the installation's endpoints hear it, or those of all teams where its type says
    so."""
    data: Mapping[str, Any]
    """Ids, and the document that REST shows."""


@dataclass(frozen=True, slots=True)
class WebhookEventType:
    """An event is noted as a few ids inside its transaction. What is sent is read a moment later, after the
    commit: the document shows how things stand then."""

    name: str
    """`release.ended`"""
    description: Text
    """One sentence."""
    build: Callable[[Ids], EventPayload | None]
    """From the ids that were noted; None when there is nothing to tell any more."""
    on: type[Any] | None = None
    """The event of the system that it tells of, as `common.events` publishes it; None: its app announces it
    itself."""
    ids: tuple[str, ...] = ()
    """The fields of `on` that are noted and sent; empty: all of them."""
    without_team_for_all: bool = False
    """One of no team concerns every team."""

    def ids_of(self, event: Any) -> Ids:
        return {name: getattr(event, name) for name in self.ids or [field.name for field in fields(event)]}


_known: dict[str, WebhookEventType] = {}
_headings: dict[str, Text] = {}
"""By the event's name: what it stands under in a list."""
_announce: list[Callable[..., None]] = []


def offer(event: WebhookEventType, heading: Text) -> None:
    """Raises ValueError for a second one of a name."""
    if _known.setdefault(event.name, event) is not event:
        raise ValueError(f"There is a webhook event {event.name!r} already.")
    _headings[event.name] = heading
    if event.on is not None:
        witness(event.on, lambda happened: _note(event, happened))


def announce_with(announce: Callable[..., None]) -> None:
    """`announce(name, **ids)` notes it for those who want to hear of it, in the transaction of the event."""
    _announce.append(announce)


def known() -> Mapping[str, WebhookEventType]:
    """Return the event types by name, in the order in which they were offered."""
    return _known


def by_heading() -> dict[str, list[WebhookEventType]]:
    """Group the event types by heading in the reader's language, what stands on other apps first."""
    found: dict[str, list[WebhookEventType]] = {}
    for name, heading in reversed(_headings.items()):
        found.setdefault(str(heading), []).insert(0, _known[name])
    return found


def installation(ids: Ids) -> EventPayload:
    """Return the payload of an event that belongs to no team: only the ids."""
    return EventPayload(None, ids)


def _note(event: WebhookEventType, happened: Any) -> None:
    for announce in _announce:
        announce(event.name, **event.ids_of(happened))
