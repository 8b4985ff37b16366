"""Rows that need a host which gives no sign of life: what may go on elsewhere does, the others say so."""

from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Value
from django.db.models.functions import Coalesce

from common.reconcile.engine import Kernel
from common.reconcile.engine import kernel as process_kernel
from common.reconcile.pulses import living_hosts
from common.reconcile.rows import Reconciled

EVERY_SECONDS = 10.0


class WaitingRows(NamedTuple):
    """Rows of one kind that wait for one host."""

    host: str
    kind: str
    rows: int
    """That are due."""


def why(host: str) -> str:
    """Return the text of a row that waits for the host."""
    return (
        f"Its host {host} gives no sign of life: neither a worker nor a sweeper runs there. Start one, or, "
        "if that machine is gone for good, give its cluster another host."
    )


def waiting(kernel: Kernel = process_kernel) -> list[WaitingRows]:
    """Rows that are due and wait for a host that is silent. Two queries."""
    asked = [kind for kind in kernel.kinds if kernel.reconciler(kind).waits_for_host]
    needed = _needed(kernel, asked, due_by=kernel.clock())
    living = living_hosts() if needed else set()
    return [one for one in needed if one.host not in living]


def attend(kernel: Kernel = process_kernel) -> None:
    """Let go of what can go on elsewhere, and write on the others why they do not go on."""
    needed = _needed(kernel, kernel.kinds, due_by=kernel.clock())
    if not needed:
        return
    living = {*living_hosts(), kernel.host()}
    for one in needed:
        if one.host in living:
            continue
        reconciler = kernel.reconciler(one.kind)
        rows = reconciler.model._default_manager.filter(lane_host=one.host, next_at__lte=kernel.clock())
        if not reconciler.waits_for_host:
            rows.update(lane_host="")
            continue
        rows = rows.filter(stuck_at=None).exclude(last_error=why(one.host))
        told = {**reconciler.on_silent_host(one.host), "last_error": why(one.host)}
        rows.update(failed_since=Coalesce("failed_since", Value(kernel.clock())), **told)


def ask_anew(host: str, kernel: Kernel = process_kernel) -> None:
    """Have every row that was bound to the host find out again where it belongs."""
    for kind in kernel.kinds:
        kernel.reconciler(kind).model._default_manager.filter(lane_host=host).update(lane_host="")


def _needed(kernel: Kernel, kinds: "list[str] | tuple[str, ...]", *, due_by: datetime) -> list[WaitingRows]:
    """Written by hand, as `due.due_rows` is: one query for all kinds."""
    if not kinds:
        return []
    sql = " UNION ALL ".join(_one(number, kernel.reconciler(kind).model) for number, kind in enumerate(kinds))
    moment = connection.ops.adapt_datetimefield_value(due_by)
    with connection.cursor() as cursor:
        cursor.execute(sql, [moment] * len(kinds))
        return [WaitingRows(host, kinds[number], rows) for number, host, rows in cursor.fetchall()]


def _one(number: int, model: type[Reconciled]) -> str:
    table = connection.ops.quote_name(model._meta.db_table)
    # Only names of our own tables and columns stand in the text.
    return (
        f"SELECT {number}, lane_host, COUNT(*) FROM {table}"  # noqa: S608
        " WHERE lane_host <> '' AND stuck_at IS NULL AND next_at <= %s GROUP BY lane_host"
    )


def rows_by_host(found: list[WaitingRows]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for one in found:
        totals[one.host] = totals.get(one.host, 0) + one.rows
    return totals
