"""What the audit log calls the things that deeds were done to, and where their pages are.

An app says it once, at start: `offer("releases.release", _("Release"), "/releases/{pk}/")`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from urllib.parse import quote

from django.apps import apps
from django.utils.functional import Promise

from common.models import AuditRecord


@dataclass(frozen=True, slots=True)
class Kind:
    noun: str | Promise
    address: str
    """Of its page, with columns of its row in braces; empty: it has none."""

    @property
    def columns(self) -> list[str]:
        return [column for _, column, _, _ in Formatter().parse(self.address) if column]


_kinds: dict[str, Kind] = {}


def offer(label: str, noun: str | Promise, address: str = "") -> None:
    """`label` is the model's, such as `releases.release`; `{model__name}` in the address follows a key."""
    _kinds[label] = Kind(noun, address)


def noun_of(label: str) -> str:
    """In the reader's language; the model's own name where no app has said one."""
    if kind := _kinds.get(label):
        return str(kind.noun)
    try:
        return str(apps.get_model(label)._meta.verbose_name).capitalize()
    except (LookupError, ValueError):
        return label


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
    return {
        str(row["pk"]): kind.address.format(
            **{name: quote(str(value), safe="") for name, value in row.items()}
        )
        for row in rows
    }
