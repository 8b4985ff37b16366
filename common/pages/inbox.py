"""What waits for a person on Home: apps say in their manifests where it is found."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.actor import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    badge: tuple[str, str]
    """Name and state, as `common.pages.badges` knows them."""
    title: str
    url: str
    since: datetime | None
    why: str
    notes: Sequence[str] = ()
    """Who has asked, how much traffic it is about: a few words each."""
    is_decision: bool = False
    """A person is to approve or reject it."""
    buttons: str = ""
    """The template of what may be done at once; empty: a link leads to its page."""
    about: Any = None
    """What that template shows, as `entry.about`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSource:
    find: Callable[[Actor], Iterable[InboxEntry]]
    """Those that the actor may do something about."""
    tells: Sequence[tuple[str, str]] = ()
    """Kind and state of the rows that it finds: `("releases.release", "waiting_approval")`. Every state whose
    badge says `ask` is told by some source."""
    topic: str = ""
    """The live topic that says when to look again."""
