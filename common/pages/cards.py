"""The sections of Home, which apps offer in their manifests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from common.actor import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeCard:
    name: str
    """The id of its element, by which htmx asks for it alone."""
    template: str
    """Shows what `read` gives as `shown`; its element follows the live topic."""
    read: Callable[[Actor], Any]
    column: Literal["main", "side"]
    rank: int
    """The lowest stands first in its column."""
    topic: str = ""
    """The live topic that it follows; empty: that of Home."""
