"""What has happened, told after the commit: frozen dataclasses, past-tense names, ids only.

Subscribers are named in the manifests of apps (`<app>/subscribers.py` holds them); an edge between two apps
stands with the higher one. They run in the publisher's process right
after the commit; one that fails is logged and never hides the event from the others. An event may be lost
with its process, so a subscriber only saves latency: whatever must happen is a row that the sweep finds.
A witness writes such a row: it runs at once, inside the publisher's transaction; its failure is the deed's.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from django.db import transaction

logger = logging.getLogger(__name__)

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Subscription(Generic[Event]):
    """An asynchronous edge of the system, as a manifest names it."""

    to: type[Event]
    subscriber: Callable[[Event], None]


_subscribers: dict[type[Any], list[Callable[[Any], None]]] = defaultdict(list)
_witnesses: dict[type[Any], list[Callable[[Any], None]]] = defaultdict(list)


def subscribe(event_type: type[Event], subscriber: Callable[[Event], None]) -> None:
    """Hand every `event_type` to `subscriber`; subscribing the same function twice changes nothing."""
    if subscriber not in _subscribers[event_type]:
        _subscribers[event_type].append(subscriber)


def witness(event_type: type[Event], write: Callable[[Event], None]) -> None:
    """Let `write` note every `event_type` down where it happens: both are committed, or neither is."""
    if write not in _witnesses[event_type]:
        _witnesses[event_type].append(write)


def publish(event: object) -> None:
    """Tell the subscribers once the current transaction has committed; a rolled-back one tells nobody."""
    for write in tuple(_witnesses[type(event)]):
        write(event)
    transaction.on_commit(partial(_deliver, event))


def _deliver(event: object) -> None:
    for subscriber in tuple(_subscribers[type(event)]):
        try:
            subscriber(event)
        except Exception:
            logger.exception("%s failed on %r", subscriber, event)
