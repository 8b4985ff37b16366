"""The global search box: asks every app's search, and shows what they find."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from common.languages import Text
from common.pages.access import GuardedLink

logger = logging.getLogger(__name__)
Person = AbstractBaseUser | AnonymousUser
LIMIT_PER_GROUP = 6


@dataclass(frozen=True, slots=True)
class SearchHit:
    title: str
    url: str
    icon: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SearchSource:
    """A group of search results."""

    group: Text
    find: Callable[[Person, str, int], Iterable[SearchHit]]
    """`(person, text, limit)` to at most `limit` hits that this person may see, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDestination(GuardedLink):
    """A page of the console that the search box finds, or something that can be begun from anywhere."""

    title: Text
    url: str
    icon: str
    words: str = ""
    """By what else it is looked for, in lower case."""
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class SearchGroup:
    name: str
    hits: list[SearchHit] = field(default_factory=list)
    failed: bool = False


_searches: list[SearchSource] = []
_destinations: list[SearchDestination] = []


def offer(search: SearchSource) -> None:
    _searches.append(search)


def offer_destination(destination: SearchDestination) -> None:
    _destinations.append(destination)


def destinations() -> tuple[SearchDestination, ...]:
    """Return the destinations in the order in which they were offered."""
    return tuple(_destinations)


def find(person: Person, text: str, *, limit: int = LIMIT_PER_GROUP) -> list[SearchGroup]:
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
            groups.append(SearchGroup(str(search.group), failed=True))
            continue
        if hits:
            groups.append(SearchGroup(str(search.group), hits))
    return groups
