"""What clusters show of their machines, read as faults: conditions, and GPUs that are not allocatable.

Read from the machines' rows, which informers and surveys keep: each look that wrote something is read once.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, OuterRef, Q, QuerySet, Subquery

from clusters.models import Gpu, Node
from clusters.states import ClusterKind, GpuSharing, GpuState, NodeState
from gpu_health.models import NodeSignals
from gpu_health.services.readings import store_readings
from gpu_health.signals.kubernetes import GPU_RESOURCE, KubernetesReader

READ = (NodeState.READY, NodeState.NOT_READY)
FRESH_FOR = timedelta(minutes=3)
"""A machine that was not seen for longer is not judged by how it was."""
AT_ONCE = 500


def unread_nodes(now: datetime) -> QuerySet[Node]:
    """Machines of Kubernetes clusters that were seen otherwise since they were last read."""
    read = NodeSignals.objects.filter(node=OuterRef("pk")).values("seen_as")
    rows = Node.objects.filter(
        cluster__kind=ClusterKind.KUBERNETES,
        cluster__problem="",
        cluster__removed_at=None,
        state__in=READ,
        seen_at__gte=now - FRESH_FOR,
    ).annotate(read_as=Subquery(read[:1]))
    return rows.filter(Q(read_as=None) | ~Q(read_as=F("seen_as"))).select_related("cluster").order_by("pk")


def read_node(node: Node, now: datetime) -> int:
    """How many readings are new. What began and what is over is told by what the last look found."""
    with transaction.atomic():
        row = NodeSignals.objects.filter(node=node).first() or NodeSignals(node=node)
        reader = KubernetesReader(
            session=f"node-{node.pk}",
            node=node.name,
            conditions=row.conditions,
            plugin_is_bad=row.plugin_is_bad,
        )
        readings = reader.read_node(_document(node), now.timestamp())
        row.seen_as = node.seen_as
        row.conditions, row.plugin_is_bad = sorted(reader.bad_conditions), reader.plugin_is_bad
        row.save()
        return store_readings(node, readings) if readings else 0


def _document(node: Node) -> dict[str, Any]:
    """As the API shows it, as far as it is known."""
    status: dict[str, Any] = {"conditions": node.conditions}
    gpus = Gpu.objects.filter(node=node, state=GpuState.PRESENT)
    allocatable = node.allocatable.get(GPU_RESOURCE)
    # Shares of a GPU are counted otherwise than GPUs.
    if allocatable is not None and not gpus.exclude(sharing=GpuSharing.NONE).exists():
        status |= {"capacity": {GPU_RESOURCE: gpus.count()}, "allocatable": {GPU_RESOURCE: allocatable}}
    return {"status": status}
