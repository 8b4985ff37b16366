import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from common import audit, events
from common.errors import SlipwayError, Unavailable
from common.models import Intent
from common.reconcile.due import DueRow, due_rows
from common.reconcile.rows import EPOCH, LANE_LENGTH
from common.reconcile.steps import Effect, LeaseLost, Operation, Outcome, Reconciler, Step, UnknownEffect
from common.reconcile.wishes import ACTOR, Due, StuckRow, Wishes

logger = logging.getLogger(__name__)

IN_A_ROW = timedelta(seconds=10)
"""How long one call keeps taking steps that are due at once; well under Celery's time limit of 20 s."""

PATIENCE = timedelta(minutes=1)
"""The longest wait between two looks at a system that does not answer."""

DIED = "The process that took this step ended in its midst, or was too slow."
"""What `last_error` says when a lease ran out."""


class NotOutside(RuntimeError):
    """A step was to be taken inside a transaction: its effect would stay, and its journal be rolled back."""


class Kernel(Wishes):
    """Advances rows of the registered kinds.

    `clock` and `checkpoint` are there for tests that bend time and crash.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = timezone.now,
        checkpoint: Callable[[str], None] = lambda _name: None,
    ) -> None:
        super().__init__(clock)
        self.checkpoint = checkpoint
        self.leases_run_out = 0
        """Steps that outlasted their lease, or whose process ended; since the start."""

    def due(
        self, *, limit: int = 100, own_for: timedelta = timedelta(0), except_lanes: Sequence[str] = ()
    ) -> list[DueRow]:
        """Rows whose next step is due and unclaimed, at most `limit` of each kind, longest overdue first.

        Those that have been due for longer than `own_for` are anybody's. One query.
        """
        models = {kind: reconciler.model for kind, reconciler in self._reconcilers.items()}
        return due_rows(models, self.clock(), limit=limit, own_for=own_for, except_lanes=except_lanes)

    def sweep(self, *, limit: int = 100) -> int:
        """Advance all that is due; returns how many rows were. One poisoned row never stops the rest."""
        due = self.due(limit=limit)
        for row in due:
            try:
                self.advance(row.kind, row.id, fence=row.fence)
            except Exception:
                logger.exception("Sweeping %s %s failed", row.kind, row.id)
        return len(due)

    def advance(self, kind: str, pk: int, *, fence: int | None = None, lane: str | None = None) -> int:
        """Take the row's steps for as long as the next one is due at once; returns how many were taken.

        Safe to call at any time by anybody: a row that is not due, or that another worker has claimed, is
        left alone. `fence`: the row's when it was found due; whoever knows it saves a query. `lane`: take no
        step that waits for another system than this one; None: whatever it waits for.
        """
        check_outside()
        reconciler = self._reconcilers[kind]
        until = self.clock() + IN_A_ROW
        steps = 0
        while (row := self._claim(reconciler, pk, fence, lane)) is not None:
            steps += 1
            self.checkpoint("claimed")
            is_due = True
            fence = row.fence
            try:
                is_due = self._take_step(reconciler, row)
            except LeaseLost:
                logger.info("%s %s was taken over at fence %s", kind, pk, row.fence)
                fence = None
            except Exception as error:
                is_due = self._fail(reconciler, row, error)
            else:
                self._note_if_late(reconciler, row)
            if not is_due or self.clock() >= until:
                break
        return steps

    def _claim(self, reconciler: Reconciler[Any], pk: int, fence: int | None, lane: str | None) -> Any | None:
        """The row, if it is due and ours from now on."""
        rows = reconciler.model._default_manager.filter(pk=pk, stuck_at__isnull=True)
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
        held = reconciler.rows().filter(pk=pk).first()
        if held is None or held.fence != fence + 1:
            return None
        if reconciler.max_attempts is None or held.attempts <= reconciler.max_attempts:
            return held if self._is_in_lane(reconciler, held, lane) else None
        with suppress(LeaseLost):
            self._stick(reconciler, held, f"{held.last_error} The step was begun {held.attempts - 1} times.")
        return None

    def _is_in_lane(self, reconciler: Reconciler[Any], row: Any, lane: str | None) -> bool:
        """Whether its step may be taken in this lane; if not, the row is let go of, for its own."""
        home = reconciler.lane_of(row)[:LANE_LENGTH]
        is_here = lane is None or lane == home
        if is_here and row.lane == home:
            return True
        given_back = {} if is_here else {"lease_until": EPOCH, "attempts": F("attempts") - 1}
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence)
        if not rows.update(lane=home, **given_back):
            return False
        row.lane = home
        if not is_here:
            events.publish(Due(reconciler.kind, row.pk, home))
        return is_here

    def _note_if_late(self, reconciler: Reconciler[Any], row: Any) -> None:
        if self.clock() > row.lease_until:
            self._count_run_out(reconciler, row.pk)

    def _count_run_out(self, reconciler: Reconciler[Any], pk: int) -> None:
        self.leases_run_out += 1
        logger.warning("A step of %s %s has outlasted its lease of %s", reconciler.kind, pk, reconciler.lease)

    def _take_step(self, reconciler: Reconciler[Any], row: Any) -> bool:
        """Whether the row is due again at once."""
        step = reconciler.next_step(row, self.clock())
        if step is None:
            return self._settle(reconciler, row, Outcome(next_in=None, ends_step=False))
        operation = Operation(
            op_key=f"{reconciler.kind}:{row.pk}:{row.turn}:{step.name}", fence=row.fence, at=self.clock()
        )
        if step.effect is not Effect.NONE:
            self._make(reconciler, row, step, operation)
        seen = step.observe(row, operation)
        self.checkpoint("observed")
        return self._settle(reconciler, row, step.settle(row, seen, self.clock()))

    def _make(self, reconciler: Reconciler[Any], row: Any, step: Step[Any], operation: Operation) -> None:
        wanted = dict(step.intent(row))
        with transaction.atomic(durable=True):
            self._hold(reconciler, row)
            intent, is_first = Intent.objects.get_or_create(
                op_key=operation.op_key,
                defaults={
                    "kind": reconciler.kind,
                    "object_id": str(row.pk),
                    "step": step.name,
                    "wanted": wanted,
                    "fence": row.fence,
                    "intended_at": self.clock(),
                },
            )
            if step.effect is Effect.ABSOLUTE and intent.wanted != wanted:
                Intent.objects.filter(op_key=operation.op_key).update(wanted=wanted, fence=row.fence)
        self.checkpoint("intended")
        if not is_first and not self._may_repeat(reconciler, row, step, operation, intent):
            return
        result = step.act(row, operation)
        self.checkpoint("acted")
        # What a later worker has written stays.
        Intent.objects.filter(op_key=operation.op_key, fence__lte=row.fence).update(
            state=Intent.State.ACTED, result=result, fence=row.fence, acted_at=self.clock()
        )
        self.checkpoint("journalled")

    def _may_repeat(
        self, reconciler: Reconciler[Any], row: Any, step: Step[Any], operation: Operation, intent: Intent
    ) -> bool:
        if step.effect is Effect.ABSOLUTE:
            return True
        if intent.state == Intent.State.ACTED:
            return False
        if step.effect is Effect.CREATE:
            return True
        happened = step.happened(row, operation)
        if happened is None:
            with transaction.atomic(durable=True):
                self._hold(reconciler, row)
                Intent.objects.filter(op_key=operation.op_key).update(state=Intent.State.UNKNOWN)
            raise UnknownEffect(
                f"A worker died in the midst of '{step.name}', and it cannot be seen whether it took effect. "
                "Look whether it did, and say so."
            )
        return not happened

    def _hold(self, reconciler: Reconciler[Any], row: Any) -> None:
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence)
        lease_until = self.clock() + reconciler.lease
        if not rows.update(lease_until=lease_until):
            raise LeaseLost
        row.lease_until = lease_until

    def _settle(self, reconciler: Reconciler[Any], row: Any, outcome: Outcome) -> bool:
        """Whether the row is due again at once."""
        if outcome.lost:
            return self._begin_anew(reconciler, row, outcome)
        columns = {
            **outcome.save,
            "turn": row.turn + (1 if outcome.ends_step else 0),
            "attempts": 0,
            "failed_since": None,
            "last_error": "",
        }
        if outcome.to:
            if reconciler.moves is not None:
                reconciler.moves.check(row.state, outcome.to)
            columns["state"] = outcome.to
        planned = None if outcome.next_in is None else self.clock() + outcome.next_in
        with transaction.atomic(durable=True):
            next_at = self._release(reconciler, row, columns, planned)
            if outcome.to:
                reconciler.on_move(row, outcome.to, outcome.note)
            if outcome.write:
                outcome.write()
            self.checkpoint("writing")
        self.checkpoint("settled")
        return next_at is not None and next_at <= self.clock()

    def _begin_anew(self, reconciler: Reconciler[Any], row: Any, outcome: Outcome) -> bool:
        columns = {**outcome.save, "turn": row.turn + 1}
        return self._try_later(reconciler, row, outcome.lost, columns, patient=False)

    def _fail(self, reconciler: Reconciler[Any], row: Any, error: Exception) -> bool:
        """Whether the row is due again at once, because of a wish."""
        reason = str(error) if isinstance(error, SlipwayError) else f"{type(error).__name__}: {error}"
        logger.warning(
            "%s %s failed, attempt %s: %s",
            reconciler.kind,
            row.pk,
            row.attempts,
            reason,
            exc_info=not isinstance(error, SlipwayError),
        )
        try:
            if isinstance(error, UnknownEffect):
                self._stick(reconciler, row, reason)
                return False
            return self._try_later(reconciler, row, reason, {}, patient=isinstance(error, Unavailable))
        except LeaseLost:
            logger.info("%s %s was taken over at fence %s", reconciler.kind, row.pk, row.fence)
            return False
        finally:
            self.checkpoint("failed")

    def _try_later(
        self, reconciler: Reconciler[Any], row: Any, reason: str, columns: Mapping[str, Any], *, patient: bool
    ) -> bool:
        """Give the row up, or let go of it until its next attempt. Whether it is due again at once.

        `patient`: what does not answer now will, so that this attempt does not count.
        """
        now = self.clock()
        since = row.failed_since or now
        limit = reconciler.max_attempts
        if not patient and limit is not None and row.attempts >= limit:
            self._stick(reconciler, row, reason, columns)
            return False
        # As long again as it has lasted: twice as long each time, for a failure that comes at once.
        pause = (
            min(max(now - since, timedelta(seconds=1)), PATIENCE)
            if patient
            else reconciler.backoff(row.attempts)
        )
        noted = {
            "attempts": row.attempts - 1 if patient else row.attempts,
            "failed_since": since,
            "last_error": reason[:4000],
            "stuck_at": None,
        }
        next_at = self._release(reconciler, row, {**columns, **noted}, now + pause)
        return next_at is not None and next_at <= now

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
        self._write(reconciler, row, {**columns, "next_at": now})
        return now

    def _write(self, reconciler: Reconciler[Any], row: Any, columns: Mapping[str, Any]) -> None:
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence, turn=row.turn)
        if not rows.update(**columns, lease_until=EPOCH):
            raise LeaseLost


def check_outside() -> None:
    """Raises NotOutside within a transaction of somebody's; that of a test around it does not count."""
    # Django's own marks, which `atomic(durable=True)` goes by.
    if connection.in_atomic_block and not getattr(connection.atomic_blocks[-1], "_from_testcase", False):
        raise NotOutside("A step is not taken inside a transaction: take it after the commit.")


kernel = Kernel()
"""The one of this process; apps register their reconcilers when Django has loaded."""
