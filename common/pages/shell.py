"""The frame around every page: where one can go, who is signed in."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from common.pages.disk_notice import notice


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation. `g` then `key` goes there; empty: no shortcut."""

    source: str
    path: str
    icon: str
    key: str = ""

    @property
    def name(self) -> str:
        return gettext(self.source)


PLACES = (
    Place(_("Home"), "/", "home", "h"),
    Place(_("Models"), "/models/", "box", "m"),
    Place(_("Services"), "/services/", "route", "s"),
    Place(_("Releases"), "/releases/", "rocket", "r"),
    Place(_("Images"), "/images/", "container", "i"),
    Place(_("Fleet"), "/fleet/", "server-2", "f"),
    Place(_("Audit"), "/audit/", "history", "a"),
    Place(_("Settings"), "/settings/", "settings"),
)


LIVE_TOPICS = {
    "/models/": "changes:models",
    "/images/": "changes:images",
    "/audit/": "changes:audit",
    "/settings/": "changes:settings",
}
"""What pages follow that name no topic of their own: they look again when something was done there."""


def current_place(path: str) -> Place | None:
    """The place that `path` lies in; Home only by its exact path."""
    for place in PLACES:
        if path == place.path or (place.path != "/" and path.startswith(place.path)):
            return place
    return None


def initials(name: str) -> str:
    """At most two letters: `Ada Lovelace` and `ada.lovelace` are both `AL`."""
    words = [word for word in name.replace(".", " ").replace("_", " ").replace("@", " ").split() if word]
    return "".join(word[0] for word in words[:2]).upper() or "?"


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor."""
    user = getattr(request, "user", None)
    name = str(user) if user is not None and user.is_authenticated else ""
    here = current_place(request.path)
    return {
        "places": PLACES,
        "here": here,
        "live_topic": LIVE_TOPICS.get(here.path, "") if here and name else "",
        "disk": notice() if name else None,
        "person": name,
        "person_initials": initials(name) if name else "",
        "slipway_version": settings.SLIPWAY_VERSION,
    }
