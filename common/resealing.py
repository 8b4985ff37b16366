"""What is sealed in the database, under which keys: sealed anew after the secret key was changed, and told
where no key is there that opens it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import JSONField, Model, Q, QuerySet

from common.sealed import CannotUnseal, key_ids, seal, unseal

_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column with what `seal` has made for this purpose; or a JSON object of such texts, by name."""

    model: type[Model]
    column: str
    purpose: str

    @property
    def holds_many(self) -> bool:
        return isinstance(self.model._meta.get_field(self.column), JSONField)

    def besides(self, key_ids: list[str]) -> Iterator[Model]:
        """Rows with something that is sealed with none of these keys, read some at a time."""
        found = self.model._base_manager.order_by("pk")
        if not self.holds_many:
            found = found.exclude(Q(**{self.column: ""}))
            for key_id in key_ids:
                found = found.exclude(Q(**{f"{self.column}__startswith": f"{key_id}:"}))
        for row in _in_batches(found):
            texts = self.texts(row).values()
            if any(text.partition(":")[0] not in key_ids for text in texts):
                yield row

    def texts(self, row: Model) -> Mapping[str, str]:
        """Return the texts by name; the name of the only one is empty."""
        value = getattr(row, self.column)
        return value if self.holds_many else {"": value}


_columns: list[SealedColumn] = []


def offer(*columns: SealedColumn) -> None:
    _columns.extend(columns)


def columns() -> tuple[SealedColumn, ...]:
    return tuple(_columns)


@dataclass(frozen=True, slots=True)
class DeadSecret:
    """No key is there that opens it."""

    row: Model
    name: str = ""

    def __str__(self) -> str:
        return f"{self.row} ({self.row._meta.label_lower}{f': {self.name}' if self.name else ''})"


def dead_secrets() -> Iterator[DeadSecret]:
    """Yield the secrets that name a missing key; not damaged ones, which only opening shows."""
    known = key_ids()
    for column in _columns:
        for row in column.besides(known):
            for name, text in column.texts(row).items():
                if text.partition(":")[0] not in known:
                    yield DeadSecret(row, name)


@dataclass(slots=True)
class Resealed:
    rows: int = 0
    """That are sealed with the present key now and were not before."""
    dead: tuple[DeadSecret, ...] = ()


def reseal(column: SealedColumn) -> Resealed:
    """Seal with the present key what a former one has sealed. Row by row: it can be interrupted, and run
    again; what somebody stores meanwhile stays.
    """
    done, dead = Resealed(), []
    present = key_ids()[:1]
    for row in column.besides(present):
        before, after = getattr(row, column.column), {}
        for name, text in column.texts(row).items():
            after[name] = text
            if text.partition(":")[0] not in present:
                try:
                    after[name] = seal(unseal(text, purpose=column.purpose), purpose=column.purpose)
                except CannotUnseal:
                    dead.append(DeadSecret(row, name))
        value: Any = after if column.holds_many else after[""]
        if value != before:
            still = column.model._base_manager.filter(pk=row.pk, **{column.column: before})
            done.rows += still.update(**{column.column: value})
    done.dead = tuple(dead)
    return done


def _in_batches(rows: QuerySet[Model]) -> Iterator[Model]:
    """Yield rows by their keys, so that a row that was changed meanwhile moves none of the others."""
    last: Any = None
    while some := list((rows if last is None else rows.filter(pk__gt=last))[:_AT_ONCE]):
        yield from some
        last = some[-1].pk
