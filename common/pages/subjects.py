"""What the audit log and Home call the rows of an app, and where their pages are.

An app says it in its manifest: `Subject("releases.release", _("Release"), "/releases/{pk}/")`.
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

from common.languages import Text
from common.models import AuditRecord


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of row, with its name, title and page."""

    kind: str
    """The model's label, such as `releases.release`."""
    noun: Text
    address: str = ""
    """Of its page, with columns of its row in braces, of which `{model__name}` follows a key; empty: it has
    none."""
    title: Text = ""
    """Of one row, with columns of it as `%(name)s` and `%(model__name)s`; empty: the noun and the row's own
    name."""
    badges: str = ""
    """Whose badges its states have."""

    @property
    def columns(self) -> list[str]:
        return [column for _, column, _, _ in Formatter().parse(self.address) if column]

    @property
    def title_columns(self) -> list[str]:
        return re.findall(r"%\((\w+)\)s", str(self.title))


_subjects: dict[str, Subject] = {}


def offer(subject: Subject) -> None:
    """Raises ValueError for a second one of a kind."""
    if _subjects.setdefault(subject.kind, subject) is not subject:
        raise ValueError(f"{subject.kind} is declared already.")


def subject_of(kind: str) -> Subject | None:
    return _subjects.get(kind)


def address_of_kind(label: str) -> str:
    """Return the address as it was offered, columns in braces; empty: its rows have no page."""
    subject = _subjects.get(label)
    return subject.address if subject else ""


def noun_of(label: str) -> str:
    """Return the noun in the reader's language; the model's own name where no app has said one."""
    if subject := _subjects.get(label):
        return str(subject.noun)
    try:
        return str(apps.get_model(label)._meta.verbose_name).capitalize()
    except (LookupError, ValueError):
        return label


def keys_followed(label: str) -> list[str]:
    """Return what `select_related` takes, so that the title and address of a row need no further query."""
    subject = _subjects.get(label)
    columns = [*subject.columns, *subject.title_columns] if subject else []
    return sorted({column.rpartition("__")[0] for column in columns if "__" in column})


def title_of(row: Model) -> str:
    """Return the title in the reader's language: `Sync of acme/chat@main`."""
    subject = _subjects.get(row._meta.label_lower)
    if subject is None or not subject.title:
        return f"{noun_of(row._meta.label_lower)} {row}"
    return str(subject.title) % {name: column_of(row, name) for name in subject.title_columns}


def address_of(row: Model) -> str:
    """Return the address of its page; empty: it has none."""
    subject = _subjects.get(row._meta.label_lower)
    return _written(subject, {name: column_of(row, name) for name in subject.columns}) if subject else ""


def column_of(row: Model, path: str) -> Any:
    """`model__team_id` of the row, which follows a key."""
    found: Any = row
    for name in path.split("__"):
        found = getattr(found, name)
    return found


def address_by_noun(name: str, pk: int) -> str:
    """Return the page of the row with this id, of the kind whose model has the name; empty: there is none."""
    for label, subject in _subjects.items():
        if subject.address and label.rpartition(".")[2] == name.replace("_", ""):
            return _found(label, {str(pk)}).get(str(pk), "")
    return ""


def addresses(rows: Iterable[AuditRecord]) -> Mapping[tuple[str, str], str]:
    """Map kind and id to the address of what is still there and has a page. One query for each subject."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.subject_id.isdecimal() and (subject := _subjects.get(row.subject_kind)) and subject.address:
            wanted[row.subject_kind].add(row.subject_id)
    return {
        (label, key): address
        for label, keys in wanted.items()
        for key, address in _found(label, keys).items()
    }


def _found(label: str, keys: set[str]) -> Mapping[str, str]:
    subject = _subjects[label]
    rows = apps.get_model(label)._base_manager.filter(pk__in=keys).values("pk", *subject.columns)
    return {str(row["pk"]): _written(subject, row) for row in rows}


def _written(subject: Subject, columns: Mapping[str, Any]) -> str:
    return subject.address.format(**{name: quote(str(value), safe="") for name, value in columns.items()})
