"""Search for images."""

from collections.abc import Iterator

from django.db.models import F

from accounts.actors import of_user
from accounts.models import User
from common.pages.search import Person, SearchHit
from images import selectors


def find_images(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if not isinstance(person, User):
        return
    found = selectors.mentioning(selectors.images(of_user(person)), text)
    for row in found.order_by(F("deprecated_at").asc(nulls_first=True), "name")[:limit]:
        yield SearchHit(row.name, f"/images/{row.name}/", "container", f"{row.engine} {row.engine_version}")
