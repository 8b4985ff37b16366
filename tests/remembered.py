"""What dear fixtures leave behind, made once in a process and put back as it was for each test that asks."""

from collections.abc import Callable, Hashable
from copy import deepcopy
from functools import cache
from typing import Any, TypeVar

from django.apps import apps
from django.db import connection, transaction
from django.db.models import Model

from accounts.models import Team, User

T = TypeVar("T")
_kept: dict[Hashable, tuple[dict[str, list[tuple[Any, ...]]], Any]] = {}


def remembered(key: Hashable, make: Callable[[], T]) -> T:
    """Return what `make` returns and write its rows, from the second time on without calling it.

    The result must be copyable. If there are users or teams already, it is made anew.
    """
    if User.objects.exists() or Team.objects.exists():
        return make()
    if key in _kept:
        tables, told = _kept[key]
        _write(tables)
        return deepcopy(told)
    made = make()
    # As it is now: the first to ask may change it.
    _kept[key] = _read(), deepcopy(made)
    return made


@cache
def _models() -> list[type[Model]]:
    managed = (model for model in apps.get_models(include_auto_created=True) if model._meta.managed)
    return [
        model for model in managed if model._meta.label not in ("contenttypes.ContentType", "auth.Permission")
    ]


def _columns(model: type[Model]) -> list[str]:
    fields = (field for field in model._meta.local_concrete_fields if not field.generated)
    return [connection.ops.quote_name(field.column) for field in fields]


def _read() -> dict[str, list[tuple[Any, ...]]]:
    """Rows by the statement that writes them, after one that takes away what every database begins with."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with connection.cursor() as cursor:
        for model in _models():
            table, columns = connection.ops.quote_name(model._meta.db_table), _columns(model)
            cursor.execute(f"SELECT {', '.join(columns)} FROM {table}")
            if rows := cursor.fetchall():
                places = ", ".join(["%s"] * len(columns))
                found[f"DELETE FROM {table}"] = [()]
                found[f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"] = rows
    return found


def _write(tables: dict[str, list[tuple[Any, ...]]]) -> None:
    """References are checked when the transaction ends, so that the tables come in any order."""
    with transaction.atomic(), connection.cursor() as cursor:
        for statement, rows in tables.items():
            cursor.executemany(statement, rows)
