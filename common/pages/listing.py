"""Filter, sort and page a queryset from the query string, so that what a person sees has a URL to share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, QuerySet
from django.db.models.expressions import OrderBy
from django.http import HttpRequest, QueryDict
from django_filters import FilterSet

M = TypeVar("M", bound=Model)
R = TypeVar("R")
PAGE, SORT = "page", "sort"
LAST_PAGE = 10_000
"""Beyond this nobody leafs; an absurd number in a URL must not become an absurd OFFSET."""


@dataclass(frozen=True)
class ListPage(Generic[R]):
    """A page of a list: its rows, and the URLs of the pages beside it."""

    rows: list[R]
    number: int
    """Which page this is, from 1."""
    size: int
    total: int | None
    """Rows on all pages; None where counting them would cost more than it tells."""
    has_next: bool
    sort: str
    """The sort in force: a key of `sorts`, with `-` in front when descending."""
    query: QueryDict
    filters: FilterSet | None = None
    part: str = "listing"
    """Id of the element, and name of the template part, that filters and page links replace."""
    faults: Sequence[tuple[str, str]] = ()
    """Label and what is wrong, of filters that no form has judged."""

    @property
    def first(self) -> int:
        return (self.number - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0

    @property
    def is_filtered(self) -> bool:
        return any(value for name in self._filter_names for value in self.query.getlist(name))

    @property
    def unfiltered_url(self) -> str:
        """All rows, in the present order."""
        return self.url(**dict.fromkeys((*self._filter_names, PAGE), ""))

    @property
    def _filter_names(self) -> Sequence[str]:
        if self.filters is not None:
            return list(self.filters.form.fields)
        return [key for key in self.query if key not in (PAGE, SORT)]

    @property
    def has_previous(self) -> bool:
        return self.number > 1

    @property
    def previous_url(self) -> str:
        return self.url(**{PAGE: str(self.number - 1)})

    @property
    def next_url(self) -> str:
        return self.url(**{PAGE: str(self.number + 1)})

    def sort_url(self, key: str, *, descending_first: bool = False) -> str:
        """Sorted by `key`; a second click turns the order around. Starts at the first page again."""
        first, second = (f"-{key}", key) if descending_first else (key, f"-{key}")
        return self.url(**{SORT: second if self.sort == first else first, PAGE: ""})

    def sorted_by(self, key: str) -> str:
        """`ascending`, `descending`, or nothing: the value of `aria-sort`."""
        if self.sort == key:
            return "ascending"
        return "descending" if self.sort == f"-{key}" else ""

    def url(self, **changes: str) -> str:
        """This listing's query string with `changes`; an empty value removes its parameter."""
        query = self.query.copy()
        for key, value in changes.items():
            if not value or (key == PAGE and value == "1"):
                query.pop(key, None)
            else:
                query[key] = value
        for key in [key for key, values in query.lists() if not any(values)]:
            del query[key]
        return f"?{query.urlencode()}" if query else "?"


def list_page(
    request: HttpRequest,
    rows: QuerySet[M],
    *,
    sorts: Mapping[str, str],
    default_sort: str,
    filters: type[FilterSet] | None = None,
    size: int = 50,
    counted: bool = True,
    part: str = "listing",
) -> ListPage[M]:
    """The page of `rows` that the query string asks for.

    `sorts` maps the key in the URL to a field path; ties are broken by the primary key, so that no row is
    seen twice or missed, and rows without a value come last both ways. An unknown sort, an unreadable page
    number or an invalid filter value is treated as absent: an old link still opens. Two queries, or one
    where `counted` is false.
    """
    bound: FilterSet | None = None
    if filters is not None:
        bound = filters(request.GET, queryset=rows, request=request)
        rows = bound.qs
    sort = request.GET.get(SORT, "")
    if sort.removeprefix("-") not in sorts:
        sort = default_sort
    field = sorts[sort.removeprefix("-")]
    rows = rows.order_by(*_order(rows.model, field, descending=sort.startswith("-")))
    number = _page_number(request.GET.get(PAGE, ""))
    total: int | None = None
    if counted:
        total = rows.count()
        number = min(number, max(1, -(-total // size)))
    start = (number - 1) * size
    found = list(rows[start : start + size + 1])
    return ListPage(
        rows=found[:size],
        number=number,
        size=size,
        total=total,
        has_next=len(found) > size,
        sort=sort,
        query=request.GET,
        filters=bound,
        part=part,
    )


def row_page(
    request: HttpRequest,
    rows: Sequence[R],
    *,
    sorts: Mapping[str, Callable[[R], Any]],
    default_sort: str,
    size: int = 50,
    filters: FilterSet | None = None,
    id_of: Callable[[R], int] | None = None,
    part: str = "listing",
    faults: Sequence[tuple[str, str]] = (),
) -> ListPage[R]:
    """Return a page as `list_page` does, of rows that are not (only) in the database, such as workers with
    what they report.

    `filters` narrows the database's part of them, whose primary key `id_of` tells: one query, where somebody
    filters.

    `sorts` maps the key in the URL to what is compared; None comes last both ways, and ties keep the order
    of `rows`. `faults`: label and words of the filters that make no sense, which the caller left out.
    """
    sort = request.GET.get(SORT, "")
    if sort.removeprefix("-") not in sorts:
        sort = default_sort
    value = sorts[sort.removeprefix("-")]
    if filters is not None and id_of is not None and any(request.GET.get(name) for name in filters.filters):
        kept = set(filters.qs.values_list("pk", flat=True))
        rows = [row for row in rows if id_of(row) in kept]
    known = [row for row in rows if value(row) is not None]
    known.sort(key=value, reverse=sort.startswith("-"))
    ordered = [*known, *(row for row in rows if value(row) is None)]
    number = min(_page_number(request.GET.get(PAGE, "")), max(1, -(-len(ordered) // size)))
    start = (number - 1) * size
    return ListPage(
        rows=ordered[start : start + size],
        number=number,
        size=size,
        total=len(ordered),
        has_next=start + size < len(ordered),
        sort=sort,
        query=request.GET,
        filters=filters,
        part=part,
        faults=faults,
    )


def _order(model: type[Model], field: str, *, descending: bool) -> list[str | OrderBy]:
    """Without a word about nulls where there are none: so that an index on the column serves."""
    column = next((one for one in model._meta.concrete_fields if one.name == field), None)
    if column is not None and not column.null:
        return [f"-{field}", "-pk"] if descending else [field, "pk"]
    return [
        F(field).desc(nulls_last=True) if descending else F(field).asc(nulls_last=True),
        F("pk").desc() if descending else F("pk").asc(),
    ]


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        return 1
    return max(1, min(int(text[:9]), LAST_PAGE))
