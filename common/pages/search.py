"""The global search box. Apps offer finders; this page asks all of them and shows what they find."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

logger = logging.getLogger(__name__)
Person = AbstractBaseUser | AnonymousUser
LIMIT_PER_GROUP = 6


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    icon: str
    detail: str = ""


Finder = Callable[[Person, str, int], Iterable[Hit]]
"""`(person, text, limit)` to at most `limit` hits that this person may see, best first."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    hits: list[Hit] = field(default_factory=list)
    failed: bool = False


_finders: dict[str, Finder] = {}


def offer(group: str, finder: Finder) -> None:
    """Let the search box find `group` ("Models", "Releases", ...); called once per app, at start."""
    if group in _finders and _finders[group] is not finder:
        raise ValueError(f"Two finders offer {group!r}; name one of them differently.")
    _finders[group] = finder


def find(person: Person, text: str, *, limit: int = LIMIT_PER_GROUP) -> list[Group]:
    """Groups with at least one hit, in the order they were offered.

    A finder that fails shows as a failed group: the others still answer.
    """
    text = text.strip()
    if not text:
        return []
    groups = []
    for name, finder in _finders.items():
        try:
            hits = list(finder(person, text, limit))[:limit]
        except Exception:
            logger.exception("The finder of %s failed", name)
            groups.append(Group(name, failed=True))
            continue
        if hits:
            groups.append(Group(name, hits))
    return groups
