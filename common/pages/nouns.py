"""What lists hold, counted: apps offer the nouns of their lists in their manifests."""

from collections.abc import Callable

Counted = Callable[[int], str]
"""`lambda count: ngettext("model", "models", count)`"""

_nouns: dict[str, Counted] = {}


def offer(name: str, counted: Counted) -> None:
    """`name` is what templates call it by: `{% pages listing noun="models" %}`. Raises ValueError for
    a second one of a name."""
    if _nouns.setdefault(name, counted) is not counted:
        raise ValueError(f"There is a noun {name!r} already.")


def noun(name: str) -> Counted:
    return _nouns[name]
