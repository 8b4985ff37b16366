"""The frame around every page: where one can go, who is signed in."""

from bisect import insort
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from common.actor import NOBODY
from common.languages import Text
from common.pages.access import GuardedLink
from common.pages.disk_notice import notice

NAV_SECTIONS: tuple[tuple[int, Text], ...] = (
    (0, ""),
    (20, _("Development")),
    (30, _("Serving")),
    (50, _("Machines")),
    (70, _("Administration")),
)
"""The lowest rank of each section of the navigation, and its heading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NavItem(GuardedLink):
    """An entry of the navigation."""

    name: Text
    path: str
    icon: str
    rank: int
    """The lowest stands first; it decides on the section, too."""
    key: str = ""
    """`g`, then this key, goes there; empty: no shortcut."""
    follows_changes: bool = False
    """Its pages name no topic of their own: they look again when something was done to what they show."""

    @property
    def section(self) -> Text:
        """Return the heading under which it stands."""
        return next(heading for rank, heading in reversed(NAV_SECTIONS) if self.rank >= rank)

    @property
    def area(self) -> str:
        """Name in the topic `changes:<area>`."""
        return self.path.strip("/")

    def holds(self, path: str) -> bool:
        """Home only by its exact path."""
        return path == self.path or (self.path != "/" and path.startswith(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab(GuardedLink):
    """Describes a tab over the pages of a nav item, where several apps have pages."""

    under: str
    """The path of the nav item."""
    name: Text
    path: str
    icon: str
    rank: int


_nav: list[NavItem] = []
_tabs: list[Tab] = []
_notices: list[str] = []


def offer(item: NavItem) -> None:
    insort(_nav, item, key=lambda one: one.rank)


def offer_notice(address: str) -> None:
    """Register the address of a fragment that stands above every page's content."""
    _notices.append(address)


def offer_tab(tab: Tab) -> None:
    insort(_tabs, tab, key=lambda one: one.rank)


def nav_items() -> tuple[NavItem, ...]:
    return tuple(_nav)


def tabs() -> tuple[Tab, ...]:
    return tuple(_tabs)


def current_item(path: str) -> NavItem | None:
    """The nav item that `path` lies in."""
    return next((item for item in _nav if item.holds(path)), None)


def initials(name: str) -> str:
    """At most two letters: `Ada Lovelace` and `ada.lovelace` are both `AL`."""
    words = [word for word in name.replace(".", " ").replace("_", " ").replace("@", " ").split() if word]
    return "".join(word[0] for word in words[:2]).upper() or "?"


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor."""
    user = getattr(request, "user", None)
    name = str(user) if user is not None and user.is_authenticated else ""
    here = current_item(request.path)
    actor = getattr(request, "actor", NOBODY)
    under = here.path if here else None
    return {
        # Lazy: pages without a frame, such as that of a fault, ask for no rights.
        "nav": SimpleLazyObject(lambda: [item for item in _nav if item.is_open_to(actor)]),
        "here": here,
        "tabs": SimpleLazyObject(
            lambda: [tab for tab in _tabs if tab.under == under and tab.is_open_to(actor)]
        ),
        "live_topic": f"changes:{here.area}" if here and here.follows_changes and name else "",
        "disk": notice() if name else None,
        "notices": _notices if name else [],
        "person": name,
        "person_initials": initials(name) if name else "",
        "slipway_version": settings.SLIPWAY_VERSION,
    }
