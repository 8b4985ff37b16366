"""Where a version that passed can be released: told by the app above, which this one does not know."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.actor import Actor
from models_registry.models import Version


@dataclass(frozen=True, slots=True)
class CanaryLink:
    """A service of the version's model, and the page that starts a release there."""

    service: str
    url: str


LinksOf = Callable[[Actor, Version], Sequence[CanaryLink]]

_registered: list[LinksOf] = []


def register_canary_links(links_of: LinksOf) -> None:
    """Offer these on the page of a run that passed. Registering twice changes nothing."""
    if links_of not in _registered:
        _registered.append(links_of)


def canary_links(actor: Actor, version: Version) -> list[CanaryLink]:
    return [link for links_of in _registered for link in links_of(actor, version)]
