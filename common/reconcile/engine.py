import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction

from common import tracing
from common.database.transactions import in_transaction
from common.errors import SlipwayError, Unavailable
from common.logs import context
from common.models import Intent, Restoration
from common.reconcile.claims import Claims, check_known
from common.reconcile.spans import step_span
from common.reconcile.steps import (
    Effect,
    LeaseLost,
    NotKnownHere,
    Operation,
    Reconciler,
    Recurring,
    Step,
    StepOutcome,
    UnknownEffect,
)

logger = logging.getLogger(__name__)

IN_A_ROW = timedelta(seconds=10)
"""How long one call keeps taking steps that are due at once; well under Celery's time limit of 20 s."""

PATIENCE = timedelta(minutes=1)
"""The longest wait between two looks at a system that does not answer."""

LEFT_FOR = timedelta(seconds=10)
"""Until this process looks again at a row that says what it does not know."""


class NotOutside(RuntimeError):
    """A step was to be taken inside a transaction: its effect would stay, and its journal be rolled back."""


class Kernel(Claims):
    """Advances rows of the registered kinds."""

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

        Safe to call at any time by anybody: a row that is not due, that another worker has claimed or that
        needs another host is left alone. `fence`: the row's when it was found due; whoever knows it saves a
        query. `lane`: take no step that waits for another system than this one; None: whatever it waits for.
        """
        check_outside()
        reconciler = self._reconcilers.get(kind)
        if reconciler is None:
            logger.info("Nobody here knows of %s: %s is left to a newer release of Slipway", kind, pk)
            return 0
        until = self.clock() + IN_A_ROW
        steps = 0
        while (row := self._claim(reconciler, pk, fence, lane)) is not None:
            steps += 1
            self.checkpoint("claimed")
            about = {"kind": kind, "id": pk, **reconciler.log_fields(row)}
            with context.on_behalf_of(row.origin, about), step_span(kind, pk) as span:
                is_due, fence = self._advance_once(reconciler, row, span)
            if not is_due or self.clock() >= until:
                break
        return steps

    def _advance_once(
        self, reconciler: Reconciler[Any], row: Any, span: tracing.TraceSpan
    ) -> tuple[bool, int | None]:
        """Whether the row is due again at once, and its fence as far as it is known."""
        try:
            is_due = self._take_step(reconciler, row, span)
        except LeaseLost:
            logger.info("%s %s was taken over at fence %s", reconciler.kind, row.pk, row.fence)
            return True, None
        except Exception as error:
            span.fail(f"{type(error).__name__}: {error}")
            return self._fail(reconciler, row, error), row.fence
        self._note_if_late(reconciler, row)
        return is_due, row.fence

    def _take_step(self, reconciler: Reconciler[Any], row: Any, span: tracing.TraceSpan) -> bool:
        """Whether the row is due again at once."""
        check_known(row)
        step = reconciler.next_step(row, self.clock())
        if step is None:
            return self._settle(reconciler, row, StepOutcome(next_in=None, ends_step=False))
        operation = Operation(
            op_key=f"{reconciler.kind}:{row.pk}:{row.turn}:{step.name}", fence=row.fence, at=self.clock()
        )
        span.name(f"{reconciler.kind} {step.name}")
        if step.effect is not Effect.NONE and self._make(reconciler, row, step, operation):
            span.keep()
        seen = step.observe(row, operation)
        self.checkpoint("observed")
        outcome = step.settle(row, seen, self.clock())
        if outcome.ends_step or isinstance(reconciler, Recurring):
            span.keep()
        return self._settle(reconciler, row, outcome)

    def _make(self, reconciler: Reconciler[Any], row: Any, step: Step[Any], operation: Operation) -> bool:
        """Make the effect, journalled; whether it was tried for the first time."""
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
                    "origin": context.origin_now(),
                },
            )
            if step.effect is Effect.ABSOLUTE and intent.wanted != wanted:
                Intent.objects.filter(op_key=operation.op_key).update(wanted=wanted, fence=row.fence)
        self.checkpoint("intended")
        if is_first and step.effect is Effect.IRREVERSIBLE:
            is_first = not Restoration.may_have_happened(reconciler.kind, row.pk)
        if not is_first and not self._may_repeat(reconciler, row, step, operation, intent):
            return False
        result = step.act(row, operation)
        self.checkpoint("acted")
        # What a later worker has written stays.
        Intent.objects.filter(op_key=operation.op_key, fence__lte=row.fence).update(
            state=Intent.State.ACTED, result=result, fence=row.fence, acted_at=self.clock()
        )
        self.checkpoint("journalled")
        return is_first

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

    def _settle(self, reconciler: Reconciler[Any], row: Any, outcome: StepOutcome) -> bool:
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
        if row.origin and isinstance(reconciler, Recurring):
            # What it does every so often it does for nobody.
            columns["origin"] = ""
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

    def _begin_anew(self, reconciler: Reconciler[Any], row: Any, outcome: StepOutcome) -> bool:
        columns = {**outcome.save, "turn": row.turn + 1}
        return self._try_later(reconciler, row, outcome.lost, columns, patient=False)

    def _fail(self, reconciler: Reconciler[Any], row: Any, error: Exception) -> bool:
        """Whether the row is due again at once, because of a wish."""
        if isinstance(error, NotKnownHere):
            return self._leave_to_newer(reconciler, row, error)
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

    def _leave_to_newer(self, reconciler: Reconciler[Any], row: Any, error: NotKnownHere) -> bool:
        """Nobody has tried anything: what takes long shows as failing, and is never stuck."""
        now = self.clock()
        logger.info("%s %s is left to others: %s", reconciler.kind, row.pk, error)
        self._left = {left: until for left, until in self._left.items() if until > now}
        self._left[reconciler.kind, row.pk] = now + LEFT_FOR
        noted = {
            "attempts": row.attempts - 1,
            "failed_since": row.failed_since or now,
            "last_error": f"{error} It waits for a process of that release."[:4000],
        }
        with suppress(LeaseLost):
            # As long due as it was: what has waited for long is anybody's, whosever share it is in.
            self._release(reconciler, row, noted, row.next_at)
        return False

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


def check_outside() -> None:
    """Raises NotOutside within a transaction."""
    if in_transaction():
        raise NotOutside("A step is not taken inside a transaction: take it after the commit.")


kernel = Kernel()
"""The one of this process; apps register their reconcilers when Django has loaded."""
