"""What the search box finds of models and their versions."""

from collections.abc import Iterator

from accounts.actors import of_user
from accounts.models import User
from common.pages.search import Person, SearchHit
from models_registry.models import Version
from models_registry.names import DIGEST_PREFIX
from models_registry.selectors import catalogue


def find_models(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    """Models by any of their words; `model:version` and the beginning of a digest lead to the version."""
    if not isinstance(person, User):
        return
    actor = of_user(person)
    name, colon, rest = text.partition(":")
    versions = Version.objects.for_actor(actor).live().select_related("model").defer("config", "scan")
    if colon and name:
        versions = versions.filter(model__name=name, name__startswith=rest, model__deleted_at=None)
    elif DIGEST_PREFIX.fullmatch(text):
        versions = versions.filter(digest__startswith=text, model__deleted_at=None)
    else:
        for model in catalogue.models(actor, q=text).order_by("name")[:limit]:
            yield SearchHit(model.name, f"/models/{model.name}/", "box", model.task or model.team.name)
        return
    for version in versions.order_by("-number")[:limit]:
        yield SearchHit(
            str(version), f"/models/{version.model.name}/{version.name}/", "box", version.short_digest
        )
