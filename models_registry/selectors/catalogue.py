"""The list of models, what it shows of each, and one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model as DjangoModel
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Lower
from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.models import Team
from accounts.states import Right
from common.actor import Actor
from common.prepared import Ids, prepared
from common.words import MAX_WORDS
from models_registry.errors import UnknownModel
from models_registry.models import Alias, Model, Version
from models_registry.references import uses_by_model

_JSON_COLUMNS = ("config", "facts", "scan", "source", "lineage")
_OF_LATEST = ("name", "digest", "size_bytes", "architecture", "parameters", "created_at", "ready_at")
R = TypeVar("R", bound=DjangoModel)


@dataclass(frozen=True, slots=True)
class AliasTarget:
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model as lists show it. Sizes in bytes, over its ready versions, each counted in full."""

    model: Model
    latest: Version | None
    """Its newest ready version."""
    aliases: tuple[AliasTarget, ...]
    version_count: int
    size_bytes: int
    served: tuple[str, ...]
    """Where its versions are used, in words."""


def without_json(rows: QuerySet[R], version: str = "") -> QuerySet[R]:
    """Leave out the JSON of the versions that `version` leads to: parsing it takes longest of all."""
    return rows.defer(*(f"{version}{column}" for column in _JSON_COLUMNS))


def models(actor: Actor, *, q: str = "") -> QuerySet[Model]:
    """The models that the actor may see; every word of `q` must occur somewhere.

    Looked at are name, task, description, team, aliases and the architecture of the newest ready version.
    """
    return mentioning(Model.objects.for_actor(actor).live().select_related("team").defer("words"), q)


def mentioning(found: QuerySet[Model], q: str) -> QuerySet[Model]:
    """Select the models in which every word of `q` occurs somewhere; see `models`."""
    for word in q.split()[:MAX_WORDS]:
        found = found.filter(_mentions(word))
    return found


def _mentions(word: str) -> Q:
    # Aliases are in lower case. The database made `words` so, and must make the word so as well: É is another
    # letter to SQLite than to Python.
    aliases = Alias.objects.filter(name__contains=word.lower())
    teams = Team.objects.filter(name__icontains=word)
    own = Q(words__contains=Lower(Value(word)))
    return own | Q(team__in=teams) | Q(pk__in=aliases.values("model"))


def cards(models: Sequence[Model]) -> list[ModelCard]:
    """Return the cards of these models in their order: a fixed number of queries for any number of them."""
    ids = [model.pk for model in models]
    # Not by a join: a database that has to sort would look up the newest of all models first.
    newest = _newest([model.latest_id for model in models if model.latest_id])
    latest = {version.pk: version for version in newest}
    aliases: dict[int, list[AliasTarget]] = {}
    for model_id, name, version in _aliases_of(ids):
        aliases.setdefault(model_id, []).append(AliasTarget(name, version))
    served = uses_by_model(ids)
    return [
        ModelCard(
            model,
            latest.get(model.latest_id or 0),
            tuple(aliases.get(model.pk, ())),
            model.ready_versions,
            model.ready_bytes,
            tuple(served.get(model.pk, ())),
        )
        for model in models
    ]


@prepared
def _newest(versions: Ids) -> QuerySet[Version]:
    return Version.objects.only(*_OF_LATEST).filter(pk__in=versions)


@prepared
def _aliases_of(models: Ids) -> QuerySet[Alias, tuple[int, str, str]]:
    rows = Alias.objects.filter(model__in=models).order_by("name")
    return rows.values_list("model", "name", "version__name")


def card(model: Model) -> ModelCard:
    # Whoever has just written may hold the row as it was before.
    model.refresh_from_db(fields=["latest", "ready_versions", "ready_bytes"])
    return cards([model])[0]


def model_named(actor: Actor, name: str) -> Model:
    """Raises UnknownModel."""
    found = _of_name(name)
    if not found or not grants_of(actor).may(Right.READ, found[0].team_id):
        raise UnknownModel(_("There is no model '%(name)s', or you may not see it.") % {"name": name[:95]})
    return found[0]


@prepared
def _of_name(name: str) -> QuerySet[Model]:
    return Model.objects.live().filter(name=name).select_related("team").defer("words")
