"""What the audit log and Home call the rows of an app, and where their pages are.

An app says it once, at start: `offer("releases.release", _("Release"), "/releases/{pk}/")`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any
from urllib.parse import quote

from django.apps import apps
from django.db.models import Model
from django.utils.functional import Promise

from common.models import AuditRecord


@dataclass(frozen=True, slots=True)
class Kind:
    noun: str | Promise
    address: str
    """Of its page, with columns of its row in braces; empty: it has none."""
    title: str | Promise
    """Of one row, with columns of it as `%(name)s`; empty: the noun and the row's own name."""

    @property
    def columns(self) -> list[str]:
        return [column for _, column, _, _ in Formatter().parse(self.address) if column]

    @property
    def title_columns(self) -> list[str]:
        return re.findall(r"%\((\w+)\)s", str(self.title))


_kinds: dict[str, Kind] = {}


def offer(label: str, noun: str | Promise, address: str = "", *, title: str | Promise = "") -> None:
    """`label` is the model's, such as `releases.release`; `{model__name}` in the address follows a key, as
    `%(model__name)s` does in the title."""
    _kinds[label] = Kind(noun, address, title)


def address_of_kind(label: str) -> str:
    """As it was offered, columns in braces; empty: its rows have no page."""
    kind = _kinds.get(label)
    return kind.address if kind else ""


def noun_of(label: str) -> str:
    """In the reader's language; the model's own name where no app has said one."""
    if kind := _kinds.get(label):
        return str(kind.noun)
    try:
        return str(apps.get_model(label)._meta.verbose_name).capitalize()
    except (LookupError, ValueError):
        return label


def keys_followed(label: str) -> list[str]:
    """What `select_related` takes, so that the title and the address of a row ask nothing more."""
    kind = _kinds.get(label)
    columns = [*kind.columns, *kind.title_columns] if kind else []
    return sorted({column.rpartition("__")[0] for column in columns if "__" in column})


def title_of(row: Model) -> str:
    """In the reader's language: `Sync of acme/chat@main`."""
    kind = _kinds.get(row._meta.label_lower)
    if kind is None or not kind.title:
        return f"{noun_of(row._meta.label_lower)} {row}"
    return str(kind.title) % {name: column_of(row, name) for name in kind.title_columns}


def address_of(row: Model) -> str:
    """Empty: it has no page."""
    kind = _kinds.get(row._meta.label_lower)
    return _written(kind, {name: column_of(row, name) for name in kind.columns}) if kind else ""


def column_of(row: Model, path: str) -> Any:
    """`model__team_id` of the row, which follows a key."""
    found: Any = row
    for name in path.split("__"):
        found = getattr(found, name)
    return found


def addresses(rows: Iterable[AuditRecord]) -> Mapping[tuple[str, str], str]:
    """By kind and id, of what is still there and has a page. One query for each kind."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.subject_id.isdecimal() and (kind := _kinds.get(row.subject_kind)) and kind.address:
            wanted[row.subject_kind].add(row.subject_id)
    return {
        (label, key): address
        for label, keys in wanted.items()
        for key, address in _found(label, keys).items()
    }


def _found(label: str, keys: set[str]) -> Mapping[str, str]:
    kind = _kinds[label]
    rows = apps.get_model(label)._base_manager.filter(pk__in=keys).values("pk", *kind.columns)
    return {str(row["pk"]): _written(kind, row) for row in rows}


def _written(kind: Kind, columns: Mapping[str, Any]) -> str:
    return kind.address.format(**{name: quote(str(value), safe="") for name, value in columns.items()})
