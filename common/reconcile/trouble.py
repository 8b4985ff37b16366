"""Rows that wait for a person, or have failed for long, of all kinds at once: what Home asks."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from django.db import connection

from common.reconcile.engine import Kernel
from common.reconcile.engine import kernel as process_kernel
from common.reconcile.rows import Reconciled

FAILING_AFTER = timedelta(minutes=2)
"""What fails for longer is told to people: a system that restarts is back before."""


class TroubledRow(NamedTuple):
    kind: str
    id: int


def troubled(
    *, kinds: Sequence[str] | None = None, limit: int = 100, kernel: Kernel = process_kernel
) -> list[TroubledRow]:
    """At most `limit` of each kind, those that have failed the longest first. One query.

    Written by hand, as `due.due_rows` is.
    """
    asked = list(kernel.kinds if kinds is None else kinds)
    if not asked:
        return []
    sql = " UNION ALL ".join(_one(number, kernel.reconciler(kind).model) for number, kind in enumerate(asked))
    now = kernel.clock()
    adapt = connection.ops.adapt_datetimefield_value
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} ORDER BY 3", [adapt(now), adapt(now - FAILING_AFTER), limit] * len(asked))
        found = cursor.fetchall()
    return [TroubledRow(asked[number], pk) for number, pk, _ in found]


def _one(number: int, model: type[Reconciled]) -> str:
    quote = connection.ops.quote_name
    table, key = quote(model._meta.db_table), quote(str(model._meta.pk.column))
    # Only names of our own tables and columns stand in the text.
    return (
        f"SELECT * FROM (SELECT {number} AS kind, {key} AS id, failed_since FROM {table}"  # noqa: S608
        f" WHERE failed_since <= %s AND (stuck_at IS NOT NULL OR failed_since < %s)"
        f" ORDER BY failed_since LIMIT %s) AS troubled_{number}"
    )
