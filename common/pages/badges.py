"""Word, tone and icon of every state: never colour alone.

An app gives the badges of its own states in its manifest, so that a state looks the same on every screen.
Tones: `idle` nothing happens, `busy` at work, `ask` a person must act, `good`, `warn`, `bad`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from django.utils.translation import gettext

from common.languages import Text

Tone = Literal["idle", "busy", "ask", "good", "warn", "bad"]
TONES: tuple[Tone, ...] = ("idle", "busy", "ask", "good", "warn", "bad")


@dataclass(frozen=True, slots=True)
class Badge:
    word: Text
    tone: Tone
    icon: str


Badges = Mapping[str, Badge]
"""By state."""

_sets: dict[str, Badges] = {}


def offer(name: str, badges: Badges) -> None:
    """`name` is what templates call them by: `{% state "release" release.state %}`. Raises ValueError for a
    second set of a name."""
    if _sets.setdefault(name, badges) is not badges:
        raise ValueError(f"There are badges {name!r} already: name the others differently.")


def badges_named(name: str) -> Badges:
    """Return the badges of that name; empty: no app has offered any."""
    return _sets.get(name, {})


def names() -> list[str]:
    return list(_sets)


def badge_of(name: str, state: str) -> Badge:
    """Return the badge of `state` in the reader's language; an unknown state shows its own name, quietly."""
    drawn = badges_named(name).get(state)
    if drawn is not None:
        return replace(drawn, word=str(drawn.word))
    return Badge(state.replace("_", " ").capitalize() or gettext("Unknown"), "idle", "help-circle")
