"""The least that a kind of row needs: this, and its model."""

from datetime import timedelta

from common.reconcile import Operation, Recurring
from tests.toys.models import Beat


class KeepBeat(Recurring[Beat]):
    model = Beat
    name = "beat"
    every = timedelta(seconds=15)

    def observe(self, row: Beat, operation: Operation) -> None:
        Beat.objects.filter(pk=row.pk).update(seen_at=operation.at)
