"""What the search box finds of the console itself: pages and commands, which apps name in their manifests."""

from collections.abc import Iterator

from django.utils.translation import gettext as _

from accounts.actors import of_user
from accounts.models import User
from common.pages.search import Person, SearchDestination, SearchHit, destinations


def find_destinations(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    """Find destinations; titles that begin with the text come first, then commands before pages."""
    if not isinstance(person, User):
        return
    wanted = text.casefold().split()
    actor = of_user(person)
    found = [one for one in destinations() if _is_meant(one, wanted) and one.is_open_to(actor)]
    found.sort(
        key=lambda one: (not str(one.title).casefold().startswith(text.casefold()), not one.is_command)
    )
    for one in found[:limit]:
        yield SearchHit(str(one.title), one.url, one.icon, _("Command") if one.is_command else _("Page"))


def _is_meant(destination: SearchDestination, wanted: list[str]) -> bool:
    words = f"{destination.title} {destination.words}".casefold().split()
    return all(any(word.startswith(part) for word in words) for part in wanted)
