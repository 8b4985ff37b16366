"""A log that a web of another host asks for is read where it lies."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from clusters.backends.base import BackendError, UnknownWorker
from clusters.models import WorkerLogRequest
from clusters.services.logs import read_log
from common.characters import storable
from common.errors import Unavailable
from common.reconcile import Operation, Reconciler, Step, StepOutcome, rest

KEPT = timedelta(minutes=10)
"""Who asked has taken the answer, or gone, long before."""


class ReadLog(Step[WorkerLogRequest]):
    name = "read log"

    def observe(self, row: WorkerLogRequest, operation: Operation) -> Mapping[str, Any]:
        try:
            return {"text": storable(read_log(row.cluster, row.worker, row.run, row.lines))}
        except UnknownWorker:
            return {"is_missing": True}
        except (BackendError, Unavailable) as error:
            return {"problem": str(error)}

    def settle(self, row: WorkerLogRequest, seen: Mapping[str, Any], now: datetime) -> StepOutcome:
        def write() -> None:
            WorkerLogRequest.objects.filter(created_at__lt=now - KEPT).delete()

        return rest(save={**seen, "answered_at": now}, write=write)


class WorkerLogReconciler(Reconciler[WorkerLogRequest]):
    model = WorkerLogRequest

    def rows(self) -> QuerySet[WorkerLogRequest]:
        return WorkerLogRequest.objects.select_related("cluster")

    def host_of(self, row: WorkerLogRequest) -> str:
        return row.cluster.host

    def lane_of(self, row: WorkerLogRequest) -> str:
        return row.cluster.own_lane

    def next_step(self, row: WorkerLogRequest, now: datetime) -> Step[WorkerLogRequest] | None:
        return None if row.answered_at else ReadLog()
