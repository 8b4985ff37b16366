"""Which rows are due, and whose a row is until when: one worker's, on the host and in the lane it needs."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Coalesce

from common import audit, clock, events
from common.hosts import this_host
from common.reconcile.due import DueRow, due_rows
from common.reconcile.rows import EPOCH, LANE_LENGTH, Reconciled
from common.reconcile.steps import LeaseLost, NotKnownHere, Reconciler
from common.reconcile.wishes import ACTOR, Due, RowRequests, StuckRow

logger = logging.getLogger(__name__)

DIED = "The process that took this step ended in its midst, or was too slow."
"""What `last_error` says when a lease ran out."""


class Claims(RowRequests):
    """Takes rows, holds them and lets go of them.

    `clock` and `checkpoint` are there for tests that bend time and crash, `host` for those that play two.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = clock.now,
        checkpoint: Callable[[str], None] = lambda _name: None,
        host: Callable[[], str] = this_host,
    ) -> None:
        super().__init__(clock)
        self.checkpoint = checkpoint
        self.host = host
        self._left: dict[tuple[str, int], datetime] = {}
        """Rows that are left to a newer release, and until when."""
        self._rows: dict[str, QuerySet[Any]] = {}
        """The query for a claimed row, by kind."""
        self.leases_run_out = 0
        """Steps that outlasted their lease, or whose process ended; since the start."""

    def due(
        self,
        *,
        limit: int = 100,
        own_for: timedelta = timedelta(0),
        ahead: timedelta = timedelta(0),
        except_lanes: Sequence[str] = (),
    ) -> list[DueRow]:
        """Rows whose next step is due and unclaimed, at most `limit` of each kind, longest overdue first.

        Those that have been due for longer than `own_for` are anybody's. `ahead`: those that will be due in
        this time follow. One query.
        """
        models = {kind: reconciler.model for kind, reconciler in self._reconcilers.items()}
        return due_rows(
            models,
            self.clock(),
            limit=limit,
            own_for=own_for,
            ahead=ahead,
            host=self.host(),
            except_lanes=except_lanes,
        )

    def _claim(self, reconciler: Reconciler[Any], pk: int, fence: int | None, lane: str | None) -> Any | None:
        """The row, if it is due and ours from now on."""
        if self._left.get((reconciler.kind, pk), EPOCH) > self.clock():
            return None
        rows = reconciler.model._default_manager.filter(
            pk=pk, stuck_at__isnull=True, lane_host__in=("", self.host())
        )
        now = self.clock()
        if fence is None:
            due = rows.filter(next_at__lte=now, lease_until__lte=now)
            fence = due.values_list("fence", flat=True).first()
            if fence is None:
                return None
        rows = rows.filter(fence=fence, next_at__lte=now)
        ours = {"fence": fence + 1, "lease_until": now + reconciler.lease, "attempts": F("attempts") + 1}
        if not rows.filter(lease_until=EPOCH).update(**ours):
            # Its last holder has let the lease run out: it may be the step that kills.
            left = {"last_error": DIED, "failed_since": Coalesce("failed_since", Value(now))}
            if not rows.filter(lease_until__gt=EPOCH, lease_until__lte=now).update(**ours, **left):
                return None
            self._count_run_out(reconciler, pk)
        # Read after the claim: wishes may have come in between; a higher fence means an interruption did.
        held = next(iter(self._rows_of(reconciler).filter(pk=pk)), None)
        if held is None or held.fence != fence + 1:
            return None
        if reconciler.max_attempts is None or held.attempts <= reconciler.max_attempts:
            return held if self._is_in_lane(reconciler, held, lane) else None
        with suppress(LeaseLost):
            self._stick(reconciler, held, f"{held.last_error} The step was begun {held.attempts - 1} times.")
        return None

    def _rows_of(self, reconciler: Reconciler[Any]) -> QuerySet[Any]:
        """Return the query that a claim narrows to one row; it is made once, without an order."""
        if reconciler.kind not in self._rows:
            self._rows[reconciler.kind] = reconciler.rows().order_by()
        return self._rows[reconciler.kind]

    def _is_in_lane(self, reconciler: Reconciler[Any], row: Any, lane: str | None) -> bool:
        """Whether its step may be taken here, in this lane; if not, the row is let go of, for its own."""
        try:
            check_known(row)
            home, host = reconciler.lane_of(row)[:LANE_LENGTH], reconciler.host_of(row)
        except NotKnownHere:
            # Its step says so, in whichever lane the row is.
            home, host = row.lane, row.lane_host
        is_here = host in ("", self.host()) and (lane is None or lane == home)
        if is_here and (row.lane, row.lane_host) == (home, host):
            return True
        given_back = {} if is_here else {"lease_until": EPOCH, "attempts": F("attempts") - 1}
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence)
        if not rows.update(lane=home, lane_host=host, **given_back):
            return False
        row.lane, row.lane_host = home, host
        if not is_here:
            events.publish(Due(reconciler.kind, row.pk, home))
        return is_here

    def _note_if_late(self, reconciler: Reconciler[Any], row: Any) -> None:
        if self.clock() > row.lease_until:
            self._count_run_out(reconciler, row.pk)

    def _count_run_out(self, reconciler: Reconciler[Any], pk: int) -> None:
        self.leases_run_out += 1
        logger.warning("A step of %s %s has outlasted its lease of %s", reconciler.kind, pk, reconciler.lease)

    def _hold(self, reconciler: Reconciler[Any], row: Any) -> None:
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence)
        lease_until = self.clock() + reconciler.lease
        if not rows.update(lease_until=lease_until):
            raise LeaseLost
        row.lease_until = lease_until

    def _release(
        self, reconciler: Reconciler[Any], row: Any, columns: Mapping[str, Any], planned: datetime | None
    ) -> datetime | None:
        """Write the columns and let go of the row. When it is due: as planned, or now if a wish has arrived
        since the claim."""
        rows = reconciler.model._default_manager.filter(
            pk=row.pk, fence=row.fence, turn=row.turn, wakes=row.wakes
        )
        if rows.update(**columns, next_at=planned, lease_until=EPOCH):
            return planned
        now = self.clock()
        # The wish has brought an origin of its own.
        kept = {name: value for name, value in columns.items() if name != "origin"}
        self._write(reconciler, row, {**kept, "next_at": now})
        return now

    def _write(self, reconciler: Reconciler[Any], row: Any, columns: Mapping[str, Any]) -> None:
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence, turn=row.turn)
        if not rows.update(**columns, lease_until=EPOCH):
            raise LeaseLost

    def _stick(
        self,
        reconciler: Reconciler[Any],
        row: Any,
        reason: str,
        columns: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """The row waits for a person from now on."""
        now = self.clock()
        stuck = {
            "last_error": reason[:4000],
            "failed_since": row.failed_since or now,
            "stuck_at": now,
            "next_at": now,
        }
        with transaction.atomic(durable=True):
            self._write(reconciler, row, {**columns, **stuck})
            self._give_up(reconciler, row, reason)

    def _give_up(self, reconciler: Reconciler[Any], row: Any, reason: str) -> None:
        columns = reconciler.on_stuck(row, reason)
        if columns:
            reconciler.model._default_manager.filter(pk=row.pk).update(**columns)
        audit.record(ACTOR, f"{row._meta.model_name}.stuck", subject=row, reason=reason)
        events.publish(StuckRow(reconciler.kind, row.pk))


def check_known(row: Reconciled) -> None:
    """Raises NotKnownHere for a row in a state that this release does not have."""
    field = _states(type(row))
    state = getattr(row, "state", "")
    if field and state not in field:
        raise NotKnownHere.state(state)


@cache
def _states(model: type[Reconciled]) -> frozenset[str]:
    """Return the states of its rows; empty: there are none, or any."""
    found = [field for field in model._meta.fields if field.name == "state"]
    return frozenset(str(value) for field in found for value, _ in field.flatchoices)
