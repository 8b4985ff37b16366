"""What the search box finds of people."""

from collections.abc import Iterator

from accounts import selectors
from accounts.actors import of_user
from accounts.models import User
from common.pages.search import Person, SearchHit
from common.words import occurs_in


def find_people(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    """Find people whom the person may know of, by any of their names or their address."""
    if not isinstance(person, User):
        return
    mentioned = occurs_in(("username", "first_name", "last_name", "email"), text)
    for found in selectors.people(of_user(person)).filter(mentioned).order_by("username")[:limit]:
        yield SearchHit(found.username, f"/settings/people/{found.username}/", "user", found.get_full_name())
