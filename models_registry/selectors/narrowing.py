"""What the lists of models and of versions can be narrowed to, by the names that addresses use."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from models_registry.models import Alias, Model, Version, VersionTag
from models_registry.selectors.catalogue import mentioning
from models_registry.selectors.versions import versions_mentioning
from models_registry.uses import models_in_use, versions_in_use

Narrowing = Mapping[str, Callable[[Any], Q]]


def models_where(found: QuerySet[Model], name: str, value: Any) -> QuerySet[Model]:
    """Those of which `value` is so; `name` is `q` or one of those below."""
    return mentioning(found, value) if name == "q" else found.filter(_MODELS[name](value))


def versions_where(found: QuerySet[Version], name: str, value: Any) -> QuerySet[Version]:
    """As `models_where`, of versions."""
    return versions_mentioning(found, value) if name == "q" else found.filter(_VERSIONS[name](value))


def _weights(format: str) -> Narrowing:
    """`format` names the column. A number that is not known is neither small nor large."""
    return {
        "architecture": lambda text: Q(architecture__istartswith=text),
        "format": lambda wanted: Q(**{format: wanted}),
        "parameters_min": lambda least: Q(parameters__gte=least),
        "parameters_max": lambda most: Q(parameters__lte=most),
    }


def _among(rows: QuerySet[Any], column: str) -> Q:
    return Q(pk__in=rows.values(column))


def _aliases(text: str) -> QuerySet[Alias]:
    """That begin with the text. Their names are in lower case, see `names`."""
    return Alias.objects.filter(name__startswith=text.lower())


_MODELS: Narrowing = {
    **_weights("weights"),
    "team": lambda team: Q(team=team),
    "task": lambda text: Q(task__istartswith=text),
    "created_by": lambda text: Q(created_by_name__istartswith=text),
    "alias": lambda text: _among(_aliases(text), "model"),
    "tag": lambda tag: Q(Exists(VersionTag.objects.filter(model=OuterRef("pk"), name=tag, is_ready=True))),
    "served": lambda is_wanted: models_in_use() if is_wanted else ~models_in_use(),
    "versions": lambda state: _among(Version.objects.filter(state=state), "model"),
}
_VERSIONS: Narrowing = {
    **_weights("facts__format"),
    "state": lambda states: Q(state__in=states),
    "created_by": lambda text: Q(author_name__istartswith=text),
    "alias": lambda text: _among(_aliases(text), "version"),
    "digest": lambda text: Q(digest__startswith=text),
    "source": lambda text: Q(source__uri__icontains=text) | Q(source__origin__icontains=text),
    "model": lambda text: Q(model__name__istartswith=text),
    "team": lambda team: Q(model__team=team),
    "tag": lambda tag: Q(Exists(VersionTag.objects.filter(version=OuterRef("pk"), name=tag))),
    "served": lambda is_wanted: versions_in_use() if is_wanted else ~versions_in_use(),
}
