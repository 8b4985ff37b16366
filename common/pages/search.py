"""The global search box: asks every app's search, and shows what they find."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from common.languages import Text
from common.pages.access import Guarded

logger = logging.getLogger(__name__)
Person = AbstractBaseUser | AnonymousUser
LIMIT_PER_GROUP = 6


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    icon: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """One group of what is found."""

    group: Text
    find: Callable[[Person, str, int], Iterable[Hit]]
    """`(person, text, limit)` to at most `limit` hits that this person may see, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination(Guarded):
    """A page of the console that the search box finds, or something that can be begun from anywhere."""

    title: Text
    url: str
    icon: str
    words: str = ""
    """By what else it is looked for, in lower case."""
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    hits: list[Hit] = field(default_factory=list)
    failed: bool = False


_searches: list[Search] = []
_destinations: list[Destination] = []


def offer(search: Search) -> None:
    _searches.append(search)


def offer_destination(destination: Destination) -> None:
    _destinations.append(destination)


def destinations() -> tuple[Destination, ...]:
    """In the order in which they were offered."""
    return tuple(_destinations)


def find(person: Person, text: str, *, limit: int = LIMIT_PER_GROUP) -> list[Group]:
    """Groups with at least one hit, in the order they were offered.

    A search that fails shows as a failed group: the others still answer.
    """
    text = text.strip()
    if not text:
        return []
    groups = []
    for search in _searches:
        try:
            hits = list(search.find(person, text, limit))[:limit]
        except Exception:
            logger.exception("The search for %s failed", search.group)
            groups.append(Group(str(search.group), failed=True))
            continue
        if hits:
            groups.append(Group(str(search.group), hits))
    return groups
