"""Documents of what there is, as files would have them."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest

from common.configuration import ConfigurationKind, kinds
from configuration.rest import KindRoutes

NOTHING: tuple[Any, ...] = (None, "", [], {}, False)


def exported(request: HttpRequest, *, only: str = "", team: str = "") -> Iterator[dict[str, Any]]:
    """Yield the objects that the person may see; `only` of this kind, of this team. Empty: of all."""
    for kind in kinds().values():
        if only in ("", kind.name):
            routes = KindRoutes(kind, request)
            fields = dict.fromkeys(routes.fields("create", "partial_update", "update"))
            for row in routes.rows():
                if kind.is_exported(row) and team in ("", row["team"]):
                    yield _document(kind, row, tuple(fields))


def _document(kind: ConfigurationKind, row: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    identity = {"name", "team"} | ({"reason"} if kind.takes_reason else set())
    shown = {**row, **(kind.exported(row) if kind.exported else {})}
    spec = {name: _plain(shown[name]) for name in fields if name in shown and name not in identity}
    head = {"kind": kind.name, **({"name": row["name"]} if kind.named_by == "name" else {})}
    return {
        **head,
        "team": row["team"],
        "spec": {name: value for name, value in spec.items() if value not in NOTHING},
    }


def _plain(value: Any) -> Any:
    """Leave out what an object inside says nothing of."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return value
