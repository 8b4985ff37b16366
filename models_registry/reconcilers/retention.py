"""How a retention rule acts: when somebody asks, or once a day."""

from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import F

from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import WrongState
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, proceed, wait
from models_registry import retention
from models_registry.errors import InUse
from models_registry.models import RetentionRule, Version
from models_registry.selectors import retention as retention_selectors
from models_registry.services import versions

RULE = Actor.system("retention rule")
DAILY = timedelta(days=1)
AT_MOST_SECONDS = 4.0
"""After this long what was done is written down; a task has 20 s."""


class ApplyRetention(Step[RetentionRule]):
    """Delete what nothing keeps: of what somebody has seen, if they ask; else whatever it is by now."""

    name = "retain"
    effect = Effect.ABSOLUTE

    def __init__(self) -> None:
        self._is_over = False

    def act(self, row: RetentionRule, operation: Operation) -> None:
        until = monotonic() + AT_MOST_SECONDS
        for version in retention_selectors.retention_preview(row, operation.at).going:
            if row.asked is not None and version.pk not in row.asked["versions"]:
                continue
            if monotonic() > until:
                return
            with suppress(InUse, WrongState):
                self._remove(row, version, operation)
        self._is_over = True

    @staticmethod
    def _remove(row: RetentionRule, version: Version, operation: Operation) -> None:
        """Raises InUse, WrongState: somebody needs it since; LeaseLost: the rule was changed since."""
        with transaction.atomic():
            counted = RetentionRule.objects.filter(pk=row.pk, fence=operation.fence).update(
                deleted_versions=F("deleted_versions") + 1,
                deleted_bytes=F("deleted_bytes") + version.size_bytes,
            )
            if not counted:
                raise LeaseLost
            versions.remove(version, actor=RULE, reason=_why(row))

    def observe(self, row: RetentionRule, operation: Operation) -> tuple[bool, int, int]:
        counts = RetentionRule.objects.values_list("deleted_versions", "deleted_bytes").get(pk=row.pk)
        return (self._is_over, *counts)

    def settle(self, row: RetentionRule, seen: tuple[bool, int, int], now: datetime) -> StepOutcome:
        is_over, deleted, freed = seen
        if not is_over:
            return wait(timedelta(0))

        def write() -> None:
            if not deleted and row.asked is None:
                return
            audit.record(
                RULE,
                "retention.ran",
                subject=row,
                reason=_why(row),
                detail={"versions": deleted, "bytes": freed},
                team_id=row.model.team_id,
            )

        save: dict[str, Any] = {
            "deleted_versions": 0,
            "deleted_bytes": 0,
            "last_run_at": now,
            "last_deleted_versions": deleted,
            "last_deleted_bytes": freed,
        }
        if row.asked is not None:
            save["asked"] = None
        if row.is_daily:
            save["due_at"] = now + DAILY
        return proceed(save=save, write=write)


class AwaitRetention(Step[RetentionRule]):
    name = "sleep"

    def settle(self, row: RetentionRule, seen: None, now: datetime) -> StepOutcome:
        return wait(max(timedelta(0), (row.due_at or now) - now))


class RetentionReconciler(Reconciler[RetentionRule]):
    model = RetentionRule
    right = Right.MODELS_WRITE

    def next_step(self, row: RetentionRule, now: datetime) -> Step[RetentionRule] | None:
        if row.model.deleted_at is not None:
            return None
        if row.asked is not None:
            return ApplyRetention()
        if not row.is_daily:
            return None
        return AwaitRetention() if row.due_at and row.due_at > now else ApplyRetention()


def _why(row: RetentionRule) -> str:
    rule = f"The rule {retention.in_words(row.keep_last, row.keep_days)}."
    if row.asked is None:
        return rule
    return f"{rule} Applied by {row.asked['by']}. {row.asked['reason']}".strip()
