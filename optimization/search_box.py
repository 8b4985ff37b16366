from collections.abc import Iterator

from accounts.actors import of_user
from accounts.models import User
from common.pages.search import Person, SearchHit
from common.words import mentioning
from optimization.models import OptimizationRun


def find(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if isinstance(person, User):
        rows = OptimizationRun.objects.for_actor(of_user(person)).select_related("team")
        for row in mentioning(rows, text, ("name", "description"))[:limit]:
            yield SearchHit(row.name, f"/optimizations/{row.pk}/", "arrows-minimize", row.team.name)
