"""Queries whose SQL is put together once: to do so takes Django several times longer than to run them.

    @prepared
    def _names(models: Ids, state: str) -> QuerySet[Version, tuple[int, str]]:
        return Version.objects.filter(model__in=models, state=state).values_list("model", "name")

    _names([3, 8], "ready")    # [(3, "v1"), (3, "v2")]

What a query is asked with takes its place in the SQL as it is. So each parameter is compared by `=` or `IN`
with a column of its own type, and what it is may not change the shape of the query. Where a list is empty
there are no rows.
"""

import copy
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from django.db.models.query import ValuesListIterable

Ids = Collection[int]
Texts = Collection[str]

P = ParamSpec("P")
Row = TypeVar("Row")

_SEVERAL = (Ids, Texts)
_STAND_INS_FROM = 2_001_000_000
"""Stand for what is asked with: no constant of a query is one of these."""


def prepared(build: Callable[P, QuerySet[Any, Row]]) -> Callable[P, list[Row]]:
    """The rows of the queryset that `build` makes.

    Its parameters are `int`, `str`, `Ids` or `Texts`, and are given by position.
    """
    hints = get_type_hints(build)
    kinds = [hints[name] for name in inspect.signature(build).parameters]
    made: dict[tuple[Any, ...], _Statement[Row]] = {}

    def rows(*given: Any) -> list[Row]:
        asked = [_padded(one) if kind in _SEVERAL else (one,) for kind, one in zip(kinds, given, strict=True)]
        lengths = tuple(map(len, asked))
        if not all(lengths):
            # Nothing is IN ().
            return []
        key = (connections[DEFAULT_DB_ALIAS].vendor, lengths)
        if key not in made:
            made[key] = _Statement(build, kinds, lengths)
        return made[key].rows([one for some in asked for one in some])

    return rows  # type: ignore[return-value]


def _padded(ids: Collection[Any]) -> Sequence[Any]:
    """Repeat the last id up to a power of two: so few statements do for any number."""
    listed = list(ids)
    return listed + listed[-1:] * ((1 << (len(listed) - 1).bit_length()) - len(listed)) if listed else listed


class _Statement(Generic[Row]):
    """A statement for lists of these lengths."""

    def __init__(
        self, build: Callable[..., QuerySet[Any, Row]], kinds: Sequence[Any], lengths: Sequence[int]
    ):
        stand_ins: list[Any] = []
        for kind, length in zip(kinds, lengths, strict=True):
            first = _STAND_INS_FROM + len(stand_ins)
            several: list[Any] = list(range(first, first + length))
            stand_ins += [f"\ue000{one}" for one in several] if kind in (str, Texts) else several
        places = {one: place for place, one in enumerate(stand_ins)}
        self._queryset = build(*_grouped(stand_ins, kinds, lengths))
        self._compiler = self._queryset.query.get_compiler(DEFAULT_DB_ALIAS)
        self._sql, self._params = self._compiler.as_sql()
        self._places = [(at, places[one]) for at, one in enumerate(self._params) if one in places]
        if {place for _, place in self._places} != set(places.values()):
            raise ImproperlyConfigured(f"{build.__qualname__} compares not all that it is given as it is.")
        columns = [column[0] for column in self._compiler.select[: self._compiler.col_count]]
        self._converters = self._compiler.get_converters(columns)
        self._are_tuples = self._queryset._iterable_class is ValuesListIterable and not (
            self._compiler.has_extra_select or self._compiler.has_composite_fields(columns) or self._reorders
        )

    @property
    def _reorders(self) -> bool:
        """Whether the columns of a row are to come in another order than the database gives them."""
        pattern: Any = self._queryset
        query, fields = pattern.query, pattern._fields
        names = [*query.extra_select, *query.values_select, *query.annotation_select]
        return bool(fields) and list(fields) != names

    def rows(self, asked: Sequence[Any]) -> list[Row]:
        params = list(self._params)
        for at, place in self._places:
            params[at] = asked[place]
        compiler: Any = copy.copy(self._compiler)
        compiler.connection = connection = connections[DEFAULT_DB_ALIAS]
        if self._are_tuples:
            with connection.cursor() as cursor:
                cursor.execute(self._sql, tuple(params))
                found: list[Any] = cursor.fetchall()
            as_tuples: Any = map(tuple, compiler.apply_converters(found, self._converters))
            return list(as_tuples)
        compiler.as_sql = lambda *_, **__: (self._sql, tuple(params))
        compiler.get_converters = lambda _: self._converters
        pattern: Any = self._queryset
        query = copy.copy(pattern.query)
        query.get_compiler = lambda *_, **__: compiler
        asked_now = type(pattern)(model=pattern.model, query=query, using=DEFAULT_DB_ALIAS)
        asked_now._iterable_class, asked_now._fields = pattern._iterable_class, pattern._fields
        return list(asked_now)


def _grouped(stand_ins: Sequence[Any], kinds: Sequence[Any], lengths: Sequence[int]) -> Iterator[Any]:
    one = iter(stand_ins)
    for kind, length in zip(kinds, lengths, strict=True):
        some = [next(one) for _ in range(length)]
        yield some if kind in _SEVERAL else some[0]
