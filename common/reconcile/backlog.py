"""How much work waits, by kind of row: what monitoring asks."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Min, Q

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


def backlogs(kernel: Kernel = process_kernel, *, hung_lanes: Collection[str] = ()) -> dict[str, Backlog]:
    """Return the backlog by kind; one query for each. Rows that wait in `hung_lanes` are due, but neither
    overdue nor the oldest: those who take rows are there, and wait for an outside system.
    """
    now = kernel.clock()
    due = Q(next_at__lte=now, lease_until__lte=now, stuck_at__isnull=True)
    late = due & ~Q(lane__in=list(hung_lanes))
    found = {}
    for kind in kernel.kinds:
        counts = kernel.reconciler(kind).model._default_manager.aggregate(
            due=Count("pk", filter=due),
            overdue=Count("pk", filter=late & Q(next_at__lt=now - OVERDUE_AFTER)),
            failing=Count("pk", filter=Q(failed_since__lt=now - FAILING_AFTER, stuck_at__isnull=True)),
            stuck=Count("pk", filter=Q(stuck_at__isnull=False)),
            since=Min("next_at", filter=late),
        )
        since = counts.pop("since")
        found[kind] = Backlog(**counts, oldest_seconds=(now - since).total_seconds() if since else 0.0)
    return found
