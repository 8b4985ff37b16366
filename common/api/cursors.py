"""Lists in pages whose borders are rows, not counts: rows that come or go never repeat or hide another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param
from rest_framework.views import APIView

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The place after (`forward`) or before one row, in one order of one list."""

    sort: str
    forward: bool
    value: Any
    pk: Any

    def sealed(self, path: str) -> str:
        content = [self.sort, self.forward, _packed(self.value), _packed(self.pk)]
        return _signer(path).sign_object(content)

    @classmethod
    def opened(cls, text: str, path: str) -> "PageCursor":
        """Raises ValueError for anything that `sealed` did not make for this path."""
        try:
            sort, forward, value, pk = _signer(path).unsign_object(text)
        except BadSignature as error:
            raise ValueError(str(error)) from None
        return cls(sort, forward, _unpacked(value), _unpacked(pk))


def _signer(path: str) -> Signer:
    return Signer(salt=f"cursor of {path}")


_PACKERS: Mapping[str, tuple[type[Any], Any, Any]] = {
    "t": (datetime, datetime.isoformat, datetime.fromisoformat),
    "d": (date, date.isoformat, date.fromisoformat),
    "n": (Decimal, str, Decimal),
    "u": (UUID, str, UUID),
}


def _packed(value: Any) -> Any:
    for tag, (kind, pack, _unpack) in _PACKERS.items():
        if isinstance(value, kind):
            return [tag, pack(value)]
    return value


def _unpacked(value: Any) -> Any:
    return _PACKERS[value[0]][2](value[1]) if isinstance(value, list) else value


class KeysetPagination(BasePagination):
    """`?limit=`, `?cursor=`, `?sort=`; answers `{"next", "previous", "results"}` with ready-made addresses.

    The view's `sort` lists the orders that it offers, `-` first for descending, the default one first; a
    client may turn any of them round. What is sorted by must never be null. Ties are broken by the key.
    """

    fields: ClassVar = ("limit", "cursor", "sort")

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any]:
        """One page; a list holds the first rows already, one more than a page has if there are more."""
        self.request = request
        limit = _limit(request)
        offered: Sequence[str] = getattr(view, "sort", ("pk",))
        self.sort = _sort(request, offered)
        cursor = _cursor(request, self.sort)
        field, descending = self.sort.removeprefix("-"), self.sort.startswith("-")
        forward = cursor is None or cursor.forward
        upwards = descending != forward
        if cursor:
            side = "gt" if upwards else "lt"
            # Redundant, but it lets the database start from an index on the field alone.
            queryset = queryset.filter(**{f"{field}__{side}e": cursor.value}).filter(
                Q(**{f"{field}__{side}": cursor.value}) | Q(**{field: cursor.value, f"pk__{side}": cursor.pk})
            )
        sign = "" if upwards else "-"
        order = [f"{sign}{field}"] if field == "pk" else [f"{sign}{field}", f"{sign}pk"]
        rows = queryset if isinstance(queryset, list) else list(queryset.order_by(*order)[: limit + 1])
        more = len(rows) > limit
        self.page = rows[:limit] if forward else rows[:limit][::-1]
        self.has_next = more if forward else bool(self.page)
        self.has_previous = cursor is not None and bool(self.page) if forward else more
        return self.page

    def get_paginated_response(self, data: Any) -> Response:
        return Response(
            {
                "next": self._address(self.page[-1], forward=True) if self.has_next else None,
                "previous": self._address(self.page[0], forward=False) if self.has_previous else None,
                "results": data,
            }
        )

    def _address(self, row: Any, *, forward: bool) -> str:
        field = self.sort.removeprefix("-")
        cursor = PageCursor(self.sort, forward, _reached(row, field), _reached(row, "pk"))
        here = remove_query_param(self.request.build_absolute_uri(), "cursor")
        return replace_query_param(here, "cursor", cursor.sealed(self.request.path))

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": link | {"description": "URL of the next page; null on the last.", "example": None},
                "previous": link | {"description": "URL of the previous page.", "example": None},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        offered = [field.removeprefix("-") for field in getattr(view, "sort", ("pk",)) if field != "pk"]
        parameters = [
            _parameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
                "Page size.",
            ),
            _parameter("cursor", {"type": "string"}, "Opaque cursor from `next` or `previous`."),
        ]
        if offered:
            choices = [sign + field for field in offered for sign in ("", "-")]
            schema = {"type": "string", "enum": choices, "default": view.sort[0]}
            parameters.append(_parameter("sort", schema, "Sort order; a leading `-` reverses it."))
        return parameters


def _parameter(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise ValidationError(
            {"limit": [_("Give a whole number from 1 to %(max_limit)s.") % {"max_limit": f"{MAX_LIMIT:,}"}]}
        )
    return int(text)


def _sort(request: Request, offered: Sequence[str]) -> str:
    wanted = request.query_params.get("sort", offered[0])
    known = [field.removeprefix("-") for field in offered]
    if wanted.removeprefix("-") not in known:
        raise ValidationError(
            {
                "sort": [
                    _("Sort by one of: %(known)s; a leading `-` reverses the order.")
                    % {"known": ", ".join(known)}
                ]
            }
        )
    return wanted


def _cursor(request: Request, sort: str) -> PageCursor | None:
    if not (text := request.query_params.get("cursor")):
        return None
    try:
        cursor = PageCursor.opened(text, request.path)
    except ValueError:
        raise ValidationError(
            {"cursor": [_("This is not a cursor of this list. Start again without one.")]}
        ) from None
    if cursor.sort != sort:
        raise ValidationError(
            {"cursor": [_("This cursor belongs to sort=%(sort)s.") % {"sort": cursor.sort}]}
        )
    return cursor


def _reached(row: Any, path: str) -> Any:
    if isinstance(row, Mapping):
        return row[path]
    for part in path.split("__"):
        row = getattr(row, part)
    if row is None or isinstance(row, Model):
        raise TypeError(f"A list cannot be sorted by {path}: it is {row!r} in some row.")
    return row
