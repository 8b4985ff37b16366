"""Who still needs a version: told by the apps above, which the registry does not know."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import Q, QuerySet, Value
from django.utils.translation import gettext

from common.prepared import Ids, prepared

MAX_NAMES = 2
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class VersionReferences:
    """Rows each of which needs one version."""

    rows: QuerySet[Any]
    version: str
    """Their foreign key to it."""
    model: str
    """The shortest way from them to its model."""
    words: str
    """What one of them is called, marked and with a `{}` for each of `names`: `service {} (stable)`."""
    names: tuple[str, ...] = ()
    """Columns of text, `MAX_NAMES` at the most."""


FallbackCheck = Callable[[], Mapping[int, Sequence[str]]]
"""From ids of versions to the reasons to keep them, in words."""

_uses: list[VersionReferences] = []
_fallbacks: list[FallbackCheck] = []


def register_uses(uses: VersionReferences) -> None:
    """Look at these rows before a version is deleted, and show them as where the version is served.

    Registering twice changes nothing.
    """
    if uses not in _uses:
        _uses.append(uses)


def register_fallback_check(check: FallbackCheck) -> None:
    """Ask `check` which versions somebody may want to return to: no rule deletes them, a person may.

    It is called once and tells of all of them.
    """
    if check not in _fallbacks:
        _fallbacks.append(check)


def uses(version_ids: Collection[int]) -> dict[int, list[str]]:
    """The uses, in words, of those of the versions that have any. One query, whoever has registered."""
    return _in_words(_of_versions(tuple(_uses))(version_ids))


def uses_by_model(model_ids: Collection[int]) -> dict[int, list[str]]:
    """Return `uses` of all versions of each of the models."""
    # Few versions of all are in use: to look up the models of these takes less than to look through all
    # versions of some models.
    found = _in_words(_of_all(tuple(_uses))())
    return {model_id: found[model_id] for model_id in model_ids if model_id in found}


def versions_in_use() -> Q:
    """Select the versions that have any use."""
    return _one_of(one.rows.values(one.version) for one in _uses)


def models_in_use() -> Q:
    """Select the models of which any version has a use."""
    return _one_of(one.rows.values(one.model) for one in _uses)


def fallbacks() -> dict[int, list[str]]:
    """Return, for each version that is a way back, the texts of those who may return to it."""
    found: dict[int, list[str]] = {}
    for check in _fallbacks:
        for version_id, words in check().items():
            found.setdefault(version_id, []).extend(words)
    return found


def _one_of(keys: Iterable[QuerySet[Any, Any]]) -> Q:
    """No key is missing: SQL's NOT IN would think that it could be any."""
    found = Q(pk__in=())
    for some in keys:
        found |= Q(pk__in=some)
    return found


@cache
def _of_versions(each: tuple[VersionReferences, ...]) -> Callable[[Ids], Rows]:
    """The uses of these versions, all in one query."""
    if not each:
        return lambda _: ()

    @prepared
    def rows(versions: Ids) -> QuerySet[Any, tuple[Any, ...]]:
        of_one = [_rows(one, one.version).filter(**{f"{one.version}__in": versions}) for one in each]
        return of_one[0].union(*of_one[1:], all=True)

    return rows


@cache
def _of_all(each: tuple[VersionReferences, ...]) -> Callable[[], Rows]:
    """The uses of all versions, by model."""
    if not each:
        return lambda: ()

    @prepared
    def rows() -> QuerySet[Any, tuple[Any, ...]]:
        of_one = [_rows(one, one.model) for one in each]
        return of_one[0].union(*of_one[1:], all=True)

    return rows


def _in_words(rows: Rows) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for key, words, *named in rows:
        found.setdefault(key, []).append(gettext(words).format(*named))
    for several in found.values():
        several.sort()
    return found


@cache
def _rows(one: VersionReferences, key: str) -> QuerySet[Any, tuple[Any, ...]]:
    """Select that key, texts, and names to put into them. Never evaluated by itself."""
    padding = (Value("") for _ in range(MAX_NAMES - len(one.names)))
    names: list[str | Value] = [*one.names, *padding]
    return one.rows.order_by().values_list(key, Value(one.words), *names)
