"""Queues of services are looked at every ten seconds; pools take from the look how many workers they need."""

from dataclasses import asdict
from datetime import datetime, timedelta

from django.db.models import QuerySet

from accounts.states import Right
from capacity.events import QueueWillBeLate
from capacity.models import CapacityStop, ServiceQueue
from capacity.queue_looks import SeenQueue, look_at_queue
from capacity.states import PoolMode, QueueKind
from common import events
from common.live.touch import touch
from common.reconcile import Operation, Recurring, StepOutcome, lane_at, wait


class ServiceQueueReconciler(Recurring[ServiceQueue]):
    model = ServiceQueue
    name = "queue"
    every = timedelta(seconds=10)
    right = Right.CAPACITY_WRITE

    def rows(self) -> QuerySet[ServiceQueue]:
        return ServiceQueue.objects.select_related("member__pool__cluster", "member__pool__team")

    def lane_of(self, row: ServiceQueue) -> str:
        return "queue:jobs" if row.kind == QueueKind.JOBS else lane_at("queue", row.url)

    def observe(self, row: ServiceQueue, operation: Operation) -> SeenQueue | None:
        if row.member.pool.state == PoolMode.OFF or CapacityStop.now().is_on:
            return None
        return look_at_queue(row, operation.at)

    def settle(self, row: ServiceQueue, seen: SeenQueue | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(self.every)
        is_late = seen.look.late_seconds > 0
        late_since = (row.late_since or now) if is_late else None

        def write() -> None:
            if is_late and row.late_since is None:
                events.publish(QueueWillBeLate(row.pk))
            touch("changes", "capacity")

        columns = {"look": asdict(seen.look), "memory": dict(seen.memory), "late_since": late_since}
        return wait(self.every, save=columns, write=write)
