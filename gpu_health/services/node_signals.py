"""What clusters show of their machines, read as faults: conditions, GPUs that are not allocatable, events.

Read from what informers and surveys keep: the machines' rows, of which each look that wrote something is read
once, and the events that were heard.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from clusters.backends.kinds import KINDS_TELLING_CONDITIONS
from clusters.backends.kubernetes_events import about
from clusters.models import Cluster, Gpu, Node
from clusters.shared_machines import events_about
from clusters.states import NodeState
from gpu_health.models import NodeSignals
from gpu_health.services.gpu_counts import note_cluster
from gpu_health.services.readings import store_readings
from gpu_health.signals.kubernetes import KubernetesReader
from gpu_health.signals.reading import GpuReading

READ = (NodeState.READY, NodeState.NOT_READY)
FRESH_FOR = timedelta(minutes=3)
"""A machine that was not seen for longer is not judged by how it was."""
AT_ONCE = 500
TOLD_FOR = timedelta(minutes=10)
"""An event that was told last before that is history."""


def unread_nodes(now: datetime) -> QuerySet[Node]:
    """Machines of clusters that keep conditions, seen otherwise since they were last read."""
    read = NodeSignals.objects.filter(node=OuterRef("pk")).values("seen_as")
    rows = Node.objects.filter(
        cluster__kind__in=KINDS_TELLING_CONDITIONS,
        cluster__problem="",
        cluster__removed_at=None,
        state__in=READ,
        seen_at__gte=now - FRESH_FOR,
    ).annotate(read_as=Subquery(read[:1]))
    return rows.filter(Q(read_as=None) | ~Q(read_as=F("seen_as"))).select_related("cluster").order_by("pk")


def read_node(node: Node, now: datetime) -> int:
    """Return the number of new readings; the last look decides what began and what is over."""
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
        note_cluster(node, now)
        return store_readings(node, readings) if readings else 0


def read_events(cluster: Cluster, now: datetime) -> int:
    """Read the cluster's events and return how many of them tell something new. Events that nobody hears,
    or that are old, count as none.
    """
    with_gpus = Node.objects.filter(Exists(Gpu.objects.filter(node=OuterRef("pk"))), state__in=READ)
    nodes = {about("Node", one.name): one for one in with_gpus.filter(cluster=cluster)}
    heard = events_about(cluster, list(nodes)) if nodes else None
    found: dict[int, list[GpuReading]] = {}
    for told in heard.events if heard is not None else ():
        node = nodes.get(told.about)
        if node is None or told.last_at is None or not now - TOLD_FOR <= told.last_at <= now + TOLD_FOR:
            continue
        # What was told again since is told by its last time: a reading of its own.
        reader = KubernetesReader(session=f"node-{node.pk}", node=node.name)
        event = {"uid": told.reason, "reason": told.reason, "message": told.message}
        if readings := reader.read_event(event, told.last_at.timestamp()):
            found.setdefault(node.pk, []).extend(readings)
    by_pk = {one.pk: one for one in nodes.values()}
    return sum(store_readings(by_pk[pk], readings) for pk, readings in found.items())


def _document(node: Node) -> dict[str, Any]:
    """Return the node as the API shows it, as far as it is known."""
    parts = {"conditions": node.conditions, "capacity": node.capacity, "allocatable": node.allocatable}
    return {"status": parts}
