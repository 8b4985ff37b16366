"""How much work waits, by kind of row: what monitoring asks."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from common.reconcile.engine import Kernel
from common.reconcile.engine import kernel as process_kernel
from common.reconcile.trouble import FAILING_AFTER

OVERDUE_AFTER = timedelta(seconds=10)
"""A doorbell takes milliseconds and the sweeper a second or two: what waits longer finds no worker."""


@dataclass(frozen=True, slots=True)
class Backlog:
    due: int
    """Rows whose next step is due, and that no worker has claimed."""
    overdue: int
    """Those of them that have been due for longer than OVERDUE_AFTER."""
    failing: int
    """Rows whose step has failed for longer than FAILING_AFTER and is tried further."""
    stuck: int
    """Rows that the kernel has given up, until a person looks."""
    oldest_seconds: float
    """For how long the longest waiting row has been due; 0.0 when none is."""


_DUE = "next_at <= %(now)s AND lease_until <= %(now)s AND stuck_at IS NULL"
_COUNTED = f"""
    SELECT {{kind}},
        COUNT(CASE WHEN {_DUE} THEN 1 END),
        COUNT(CASE WHEN {_DUE} AND {{punctual}} AND next_at < %(overdue)s THEN 1 END),
        COUNT(CASE WHEN failed_since < %(failing)s AND stuck_at IS NULL THEN 1 END),
        COUNT(stuck_at),
        MIN(CASE WHEN {_DUE} AND {{punctual}} THEN next_at END)
    FROM {{table}}"""  # noqa: S608
"""Written by hand: for Django to put it together for each kind takes longer than all of the answer."""


def backlogs(kernel: Kernel = process_kernel, *, hung_lanes: Collection[str] = ()) -> dict[str, Backlog]:
    """Return the backlog by kind, of one query. Rows that wait in `hung_lanes` are due, but neither overdue
    nor the oldest: those who take rows are there, and wait for an outside system.
    """
    now = kernel.clock()
    moments = {"now": now, "overdue": now - OVERDUE_AFTER, "failing": now - FAILING_AFTER}
    values: dict[str, Any] = {
        name: connection.ops.adapt_datetimefield_value(at) for name, at in moments.items()
    }
    values |= {f"lane{number}": lane for number, lane in enumerate(hung_lanes)}
    lanes = ", ".join(f"%(lane{number})s" for number in range(len(hung_lanes)))
    punctual = f"lane NOT IN ({lanes})" if lanes else "1 = 1"
    selects = []
    for number, kind in enumerate(kernel.kinds):
        table = connection.ops.quote_name(kernel.reconciler(kind).model._meta.db_table)
        selects.append(_COUNTED.format(kind=number, punctual=punctual, table=table))
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(selects), values)
        for number, due, overdue, failing, stuck, since in cursor.fetchall():
            oldest = (now - _moment(since)).total_seconds() if since else 0.0
            found[kernel.kinds[number]] = Backlog(due, overdue, failing, stuck, oldest)
    return found


def _moment(value: datetime | str) -> datetime:
    """SQLite's is a text without its zone."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)
