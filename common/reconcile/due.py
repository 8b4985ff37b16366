"""Rows that are due, asked of all kinds at once, and those that will be in a moment."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db import connection

from common.reconcile.rows import Reconciled


class DueRow(NamedTuple):
    kind: str
    id: int
    fence: int | None
    """When it was found: a claim that names it fails if anybody else has claimed the row since."""
    is_anybodys: bool
    """It has been due for so long that nobody waits any more for whose share it is in."""
    lane: str = ""
    is_hosts: bool = False
    """Only processes of this host take it."""
    due_in: float = 0.0
    """Seconds; 0: it is due."""


def due_rows(
    models: Mapping[str, type[Reconciled]],
    now: datetime,
    *,
    limit: int,
    own_for: timedelta,
    host: str,
    ahead: timedelta = timedelta(0),
    except_lanes: Sequence[str] = (),
) -> list[DueRow]:
    """Rows of these kinds that are due, or will be in this time, unclaimed and not another host's than
    `host`, at most `limit` of each, longest overdue first.

    `except_lanes`: those that have enough to do; else their rows alone would fill the limit.
    Written by hand: Django takes fifty times as long to put the question as the database to answer it.
    """
    if not models:
        return []
    kinds = list(models)
    others = f" AND lane NOT IN ({', '.join(['%s'] * len(except_lanes))})" if except_lanes else ""
    sql = " UNION ALL ".join(_one(number, models[kind], others) for number, kind in enumerate(kinds))
    moment = connection.ops.adapt_datetimefield_value(now)
    soon = connection.ops.adapt_datetimefield_value(now + ahead)
    late = connection.ops.adapt_datetimefield_value(now - own_for)
    with connection.cursor() as cursor:
        cursor.execute(
            f"{sql} ORDER BY 7", [late, host, soon, moment, host, *except_lanes, limit] * len(kinds)
        )
        found = cursor.fetchall()
    return [
        DueRow(kinds[number], pk, fence, bool(late), lane, bool(is_hosts), _seconds_until(next_at, now))
        for number, pk, fence, late, lane, is_hosts, next_at in found
    ]


def _seconds_until(next_at: datetime, now: datetime) -> float:
    """SQLite gives times without their zone, which is UTC."""
    return max(0.0, (next_at.replace(tzinfo=next_at.tzinfo or UTC) - now).total_seconds())


def _one(number: int, model: type[Reconciled], others: str) -> str:
    quote = connection.ops.quote_name
    table, key = quote(model._meta.db_table), quote(str(model._meta.pk.column))
    # Only names of our own tables and columns stand in the text.
    return (
        f"SELECT * FROM (SELECT {number} AS kind, {key} AS id, fence, next_at <= %s AS late, lane,"  # noqa: S608
        f" lane_host = %s AS is_hosts, next_at"
        f" FROM {table} WHERE stuck_at IS NULL AND next_at <= %s AND lease_until <= %s"
        f" AND lane_host IN ('', %s){others}"
        f" ORDER BY next_at LIMIT %s) AS due_{number}"
    )
