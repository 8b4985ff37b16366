from datetime import datetime, timedelta
from typing import Any

from common.reconcile import Operation, Recurring, StepOutcome, wait
from usage.models import UsageMeter
from usage.services import record_usage


class UsageMeterReconciler(Recurring[UsageMeter]):
    """Adds what was used to the day, in the transaction that moves the meter on: nothing is counted twice."""

    name = "meter usage"
    model = UsageMeter
    every = timedelta(minutes=1)

    def observe(self, row: UsageMeter, operation: Operation) -> UsageMeter:
        return row

    def settle(self, row: UsageMeter, seen: Any, now: datetime) -> StepOutcome:
        return wait(self.every, write=lambda: _write(row, now))


def _write(row: UsageMeter, now: datetime) -> None:
    UsageMeter.objects.filter(pk=row.pk).update(**record_usage(row, now))
