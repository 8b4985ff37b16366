"""Idle machines are checked in turn."""

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from clusters.models import Gpu, Node, Worker
from clusters.states import NodeState
from common.reconcile import Effect, Operation, Recurring
from gpu_health.errors import CheckUnderWay
from gpu_health.incident_facts import ACTOR
from gpu_health.models import CheckSchedule, GpuCheck, Incident
from gpu_health.services.checks import order_check
from gpu_health.states import ENDED_CHECKS, ENDED_INCIDENTS, CheckLevel

WAITS = timedelta(minutes=10)
AT_ONCE = 0.1
"""Of the machines with GPUs of a cluster; one at least."""


class CheckScheduleReconciler(Recurring[CheckSchedule]):
    """Orders the short check of machines whose last one is SLIPWAY_GPU_CHECK_HOURS ago."""

    name = "order checks"
    model = CheckSchedule
    effect = Effect.ABSOLUTE
    every = timedelta(minutes=5)

    def act(self, row: CheckSchedule, operation: Operation) -> None:
        hours = settings.SLIPWAY_GPU_CHECK_HOURS
        if not hours:
            return
        since = operation.at - timedelta(hours=hours)
        with_gpus = Node.objects.filter(Exists(Gpu.objects.filter(node=OuterRef("pk")))).filter(
            state=NodeState.READY
        )
        for cluster in sorted(set(with_gpus.values_list("cluster_id", flat=True))):
            machines = with_gpus.filter(cluster_id=cluster)
            free = max(1, int(AT_ONCE * machines.count())) - _under_way(cluster)
            for node in _due(machines, since)[: max(0, free)]:
                _order(node)


def _under_way(cluster_id: int) -> int:
    return GpuCheck.objects.filter(node__cluster_id=cluster_id).exclude(state__in=ENDED_CHECKS).count()


def _due(machines: QuerySet[Node], since: object) -> Sequence[Node]:
    """Idle as far as rows say, neither cordoned nor being healed, those first that were never checked."""
    checks = GpuCheck.objects.filter(node=OuterRef("pk"))
    lately = checks.filter(Q(ended_at__gte=since) | ~Q(state__in=ENDED_CHECKS))
    incidents = Incident.objects.filter(node=OuterRef("pk")).exclude(state__in=ENDED_INCIDENTS)
    workers = Worker.objects.filter(node=OuterRef("pk"))
    due = machines.filter(~Exists(lately), ~Exists(incidents), ~Exists(workers), is_cordoned=False)
    return list(
        due.annotate(is_known=Exists(checks)).order_by("is_known", "pk").select_related("cluster__team")
    )


def _order(node: Node) -> None:
    try:
        order_check(actor=ACTOR, node=node, level=CheckLevel.SHORT, reason="its turn", waits=WAITS)
    except CheckUnderWay:
        return
