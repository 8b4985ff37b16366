"""Every entry of the audit record on its way to the outputs that the installation names."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from accounts.models import AuditOutput
from common.audit import outputs
from common.models import AuditRecord
from common.reconcile import Operation, Recurring, StepOutcome, lane_at, wait

EVERY = timedelta(seconds=2)
BATCH = 200


class AuditOutputReconciler(Recurring[AuditOutput]):
    """A crash after entries were sent only sends them again."""

    model = AuditOutput
    name = "deliver entries"

    def lane_of(self, row: AuditOutput) -> str:
        return lane_at("audit", row.place)

    def host_of(self, row: AuditOutput) -> str:
        return row.host

    def observe(self, row: AuditOutput, operation: Operation) -> Sequence[AuditRecord]:
        """Return the records that were delivered."""
        records = list(AuditRecord.objects.filter(seq__gt=row.seq).order_by("seq")[:BATCH])
        if records:
            outputs.deliver(row.place, records)
        return records

    def settle(self, row: AuditOutput, seen: Sequence[AuditRecord], now: datetime) -> StepOutcome:
        if not seen:
            return wait(EVERY)
        return wait(timedelta() if len(seen) == BATCH else EVERY, save={"seq": seen[-1].seq, "sent_at": now})
