import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from common import audit, events
from common.actor import Actor
from common.errors import SlipwayError, Unavailable
from common.models import Intent
from common.reconcile.due import DueRow, due_rows
from common.reconcile.rows import EPOCH, Reconciled
from common.reconcile.steps import Effect, LeaseLost, Operation, Outcome, Reconciler, Step, UnknownEffect

logger = logging.getLogger(__name__)

ACTOR = Actor.system("slipway")
IN_A_ROW = timedelta(seconds=10)
"""How long one call keeps taking steps that are due at once; well under Celery's time limit of 20 s."""

MOST_ATTEMPTS = 1_000
"""They are counted no further; the column holds 32,767."""

DIED = "The process that took this step ended in its midst."
"""What `last_error` says when a lease ran out: deaths in a row are counted like failures in a row."""


@dataclass(frozen=True, slots=True)
class Due:
    """A row's next step is due now: the doorbell."""

    kind: str
    id: int


@dataclass(frozen=True, slots=True)
class StuckRow:
    """A row has failed too often and waits for a person."""

    kind: str
    id: int


class Kernel:
    """Advances rows of the registered kinds.

    `clock` and `checkpoint` are there for tests that bend time and crash.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = timezone.now,
        checkpoint: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._reconcilers: dict[str, Reconciler[Any]] = {}
        self.clock = clock
        self.checkpoint = checkpoint

    def register(self, reconciler: Reconciler[Any]) -> None:
        self._reconcilers[reconciler.kind] = reconciler

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._reconcilers)

    def reconciler(self, kind: str) -> Reconciler[Any]:
        return self._reconcilers[kind]

    def kind_of(self, row: Reconciled) -> str:
        return next(kind for kind, one in self._reconcilers.items() if isinstance(row, one.model))

    def due(self, *, limit: int = 100, own_for: timedelta = timedelta(0)) -> list[DueRow]:
        """Rows whose next step is due and unclaimed, at most `limit` of each kind, longest overdue first.

        Those that have been due for longer than `own_for` are anybody's. One query.
        """
        models = {kind: reconciler.model for kind, reconciler in self._reconcilers.items()}
        return due_rows(models, self.clock(), limit=limit, own_for=own_for)

    def sweep(self, *, limit: int = 100) -> int:
        """Advance all that is due; returns how many rows were. One poisoned row never stops the rest."""
        due = self.due(limit=limit)
        for row in due:
            try:
                self.advance(row.kind, row.id, fence=row.fence)
            except Exception:
                logger.exception("Sweeping %s %s failed", row.kind, row.id)
        return len(due)

    def advance(self, kind: str, pk: int, *, fence: int | None = None) -> int:
        """Take the row's steps for as long as the next one is due at once; returns how many were taken.

        Safe to call at any time by anybody: a row that is not due, or that another worker has claimed, is
        left alone. `fence`: the row's when it was found due; whoever knows it saves a query.
        """
        reconciler = self._reconcilers[kind]
        until = self.clock() + IN_A_ROW
        steps = 0
        while (row := self._claim(reconciler, pk, fence)) is not None:
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
            if not is_due or self.clock() >= until:
                break
        return steps

    def wake(self, row: Reconciled, *, where: Mapping[str, Any] | None = None, **wishes: Any) -> bool:
        """Write wishes on the row and make its next step due now; False if `where` does not hold any more.

        A step that is under way finishes first; the wish is not lost. Call it inside the transaction of the
        audit row.
        """
        return self._wish(row, where or {}, wishes)

    def interrupt(self, row: Reconciled, *, where: Mapping[str, Any] | None = None, **wishes: Any) -> bool:
        """Like `wake`, but takes the row away from whoever has it: what outranks all, such as an abort.

        The worker in mid-step finds its fence stale at its next write, in the database and at the resource.
        """
        fresh = {"fence": F("fence") + 1, "lease_until": EPOCH, "attempts": 0, "stuck_at": None}
        return self._wish(row, where or {}, {**wishes, **fresh})

    def revive(self, row: Reconciled, **wishes: Any) -> bool:
        """Try a stuck row again from where it stands; False if it is not stuck."""
        fresh = {"lease_until": EPOCH, "attempts": 0, "stuck_at": None}
        return self._wish(row, {"stuck_at__isnull": False}, {**wishes, **fresh})

    def answer_unknown(self, row: Reconciled, *, happened: bool) -> bool:
        """A person has looked whether the effect in doubt took place; the row goes on accordingly."""
        doubts = Intent.objects.filter(
            kind=self.kind_of(row), object_id=str(row.pk), state=Intent.State.UNKNOWN
        )
        with transaction.atomic():
            if happened:
                doubts.update(state=Intent.State.ACTED, acted_at=self.clock())
            else:
                doubts.delete()
            return self.revive(row)

    def _wish(self, row: Reconciled, where: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
        rows = type(row)._default_manager.filter(pk=row.pk, **where)
        if not rows.update(**columns, wakes=F("wakes") + 1, next_at=self.clock()):
            return False
        events.publish(Due(self.kind_of(row), row.pk))
        return True

    def _claim(self, reconciler: Reconciler[Any], pk: int, fence: int | None) -> Any | None:
        """The row, if it is due and ours from now on."""
        rows = reconciler.model._default_manager.filter(pk=pk, stuck_at__isnull=True)
        now = self.clock()
        if fence is None:
            due = rows.filter(next_at__lte=now, lease_until__lte=now)
            fence = due.values_list("fence", flat=True).first()
            if fence is None:
                return None
        ours = {"fence": fence + 1, "lease_until": now + reconciler.lease}
        if not rows.filter(fence=fence, next_at__lte=now, lease_until=EPOCH).update(**ours):
            return self._claim_from_the_dead(reconciler, pk, fence)
        # Read after the claim: wishes may have come in between; a higher fence means an interruption did.
        held = reconciler.rows().filter(pk=pk).first()
        return held if held is not None and held.fence == fence + 1 else None

    def _claim_from_the_dead(self, reconciler: Reconciler[Any], pk: int, fence: int) -> Any | None:
        """As `_claim`, for a row whose last holder let its lease run out. It may be the step that kills."""
        rows = reconciler.model._default_manager.filter(pk=pk, fence=fence, stuck_at__isnull=True)
        now = self.clock()
        left = rows.filter(next_at__lte=now, lease_until__gt=EPOCH, lease_until__lte=now).first()
        if left is None:
            return None
        attempts = left.attempts + 1 if left.last_error == DIED else 1
        ours = {"fence": fence + 1, "lease_until": now + reconciler.lease}
        if not rows.filter(lease_until=left.lease_until).update(**ours, attempts=attempts, last_error=DIED):
            return None
        held = reconciler.rows().filter(pk=pk).first()
        if held is None or held.fence != fence + 1:
            return None
        if attempts < reconciler.max_attempts:
            return held
        self._stick(reconciler, held, f"{DIED} {attempts} times in a row: the step may be what ends it.")
        return None

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
        with transaction.atomic():
            self._hold(reconciler, row)
            intent, is_first = Intent.objects.get_or_create(
                op_key=operation.op_key,
                defaults={
                    "kind": reconciler.kind,
                    "object_id": str(row.pk),
                    "step": step.name,
                    "wanted": dict(step.intent(row)),
                    "fence": row.fence,
                    "intended_at": self.clock(),
                },
            )
        self.checkpoint("intended")
        if not is_first and not self._may_repeat(row, step, operation, intent):
            return
        result = step.act(row, operation)
        self.checkpoint("acted")
        Intent.objects.filter(op_key=operation.op_key).update(
            state=Intent.State.ACTED, result=result, fence=row.fence, acted_at=self.clock()
        )
        self.checkpoint("journalled")

    def _may_repeat(self, row: Any, step: Step[Any], operation: Operation, intent: Intent) -> bool:
        if step.effect is Effect.ABSOLUTE:
            return True
        if intent.state == Intent.State.ACTED:
            return False
        if step.effect is Effect.CREATE:
            return True
        happened = step.happened(row, operation)
        if happened is None:
            Intent.objects.filter(op_key=operation.op_key).update(state=Intent.State.UNKNOWN)
            raise UnknownEffect(
                f"A worker died in the midst of '{step.name}', and it cannot be seen whether it took effect. "
                "Check by hand, then resume."
            )
        return not happened

    def _hold(self, reconciler: Reconciler[Any], row: Any) -> None:
        rows = reconciler.model._default_manager.filter(pk=row.pk, fence=row.fence)
        if not rows.update(lease_until=self.clock() + reconciler.lease):
            raise LeaseLost

    def _settle(self, reconciler: Reconciler[Any], row: Any, outcome: Outcome) -> bool:
        """Whether the row is due again at once."""
        columns = {
            **outcome.save,
            "turn": row.turn + (1 if outcome.ends_step else 0),
            "attempts": 0,
            "last_error": "",
        }
        planned = None if outcome.next_in is None else self.clock() + outcome.next_in
        with transaction.atomic():
            next_at = self._release(reconciler, row, columns, planned)
            if outcome.write:
                outcome.write()
            self.checkpoint("writing")
        self.checkpoint("settled")
        return next_at is not None and next_at <= self.clock()

    def _fail(self, reconciler: Reconciler[Any], row: Any, error: Exception) -> bool:
        """Whether the row is due again at once, because of a wish."""
        attempts = min(row.attempts + 1, MOST_ATTEMPTS)
        reason = str(error) if isinstance(error, SlipwayError) else f"{type(error).__name__}: {error}"
        logger.warning(
            "%s %s failed, attempt %s: %s",
            reconciler.kind,
            row.pk,
            attempts,
            reason,
            exc_info=not isinstance(error, SlipwayError),
        )
        # What does not answer now will: no person could do more than wait for it, too.
        is_given_up = attempts >= reconciler.max_attempts and not isinstance(error, Unavailable)
        now = self.clock()
        next_at: datetime | None = None
        try:
            if is_given_up or isinstance(error, UnknownEffect):
                self._stick(reconciler, row, reason, attempts=attempts)
            else:
                columns = {"attempts": attempts, "last_error": reason[:4000], "stuck_at": None}
                next_at = self._release(reconciler, row, columns, now + reconciler.backoff(attempts))
        except LeaseLost:
            logger.info("%s %s was taken over at fence %s", reconciler.kind, row.pk, row.fence)
        self.checkpoint("failed")
        return next_at is not None and next_at <= now

    def _stick(
        self, reconciler: Reconciler[Any], row: Any, reason: str, *, attempts: int | None = None
    ) -> None:
        """The row waits for a person from now on."""
        now = self.clock()
        columns = {"last_error": reason[:4000], "stuck_at": now, "next_at": now}
        if attempts is not None:
            columns["attempts"] = attempts
        with transaction.atomic():
            self._write(reconciler, row, columns)
            self._give_up(reconciler, row, reason)

    def _give_up(self, reconciler: Reconciler[Any], row: Any, reason: str) -> None:
        columns = reconciler.on_stuck(row, reason)
        if columns:
            reconciler.model._default_manager.filter(pk=row.pk).update(**columns)
        audit.record(ACTOR, f"{reconciler.kind}.stuck", subject=row, reason=reason)
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


kernel = Kernel()
"""The one of this process; apps register their reconcilers when Django has loaded."""
