"""A cluster's row and its machines' rows say what its backend sees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clusters.backends import backend_of
from clusters.backends.base import BackendError, ClusterBackend, ObservedGpu, ObservedNode
from clusters.models import Cluster, Gpu, Node
from clusters.states import NodeState
from common import live
from common.reconcile import Operation, Outcome, Reconciler, Step, wait

LOOK_EVERY = timedelta(seconds=10)
SEEN_AT_WITHIN = timedelta(minutes=1)
"""How old `seen_at` may be of a machine that is there."""


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    problem: str
    nodes: tuple[ObservedNode, ...]
    known: list[Node]


class Survey(Step[Cluster]):
    name = "survey"

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend]) -> None:
        self.backend_of = backend_of

    def observe(self, row: Cluster, operation: Operation) -> ObservedCluster:
        known = list(Node.objects.filter(cluster=row).prefetch_related("gpus"))
        try:
            backend = self.backend_of(row)
            health = backend.health()
            return ObservedCluster(
                "" if health.ok else health.detail or "It takes no orders.", backend.nodes(), known
            )
        except BackendError as error:
            return ObservedCluster(str(error), (), known)

    def settle(self, row: Cluster, seen: ObservedCluster, now: datetime) -> Outcome:
        save: dict[str, Any] = {"surveyed_at": now, "problem": seen.problem}
        return wait(LOOK_EVERY, save=save, write=lambda: record(row, seen, now))


class ClusterReconciler(Reconciler[Cluster]):
    model = Cluster

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend] = backend_of) -> None:
        self.backend_of = backend_of

    def lane_of(self, row: Cluster) -> str:
        return row.own_lane

    def next_step(self, row: Cluster, now: datetime) -> Step[Cluster] | None:
        return Survey(self.backend_of)

    def on_stuck(self, row: Cluster, reason: str) -> Mapping[str, Any]:
        return {"problem": reason}


def record(row: Cluster, seen: ObservedCluster, now: datetime) -> None:
    """Write what differs from what is known. A machine that is not seen stays, as unreachable."""
    is_news = seen.problem != row.problem
    known = {node.name: node for node in seen.known}
    for one in seen.nodes:
        node = known.pop(one.name, None) or Node(cluster=row, name=one.name, seen_at=now)
        is_news |= _record_node(node, one, now)
    for node in known.values():
        if node.state != NodeState.UNREACHABLE:
            Node.objects.filter(pk=node.pk).update(state=NodeState.UNREACHABLE)
            is_news = True
    if is_news:
        live.touch("fleet")


def _record_node(node: Node, seen: ObservedNode, now: datetime) -> bool:
    """True if anybody would want to know."""
    before = (node.pk, node.address, node.cpu_count, node.memory_bytes, node.state)
    node.address, node.cpu_count, node.memory_bytes = seen.address, seen.cpu_count, seen.memory_bytes
    node.state = NodeState.READY
    is_news = before != (node.pk, node.address, node.cpu_count, node.memory_bytes, node.state) or not node.pk
    if is_news or now - node.seen_at >= SEEN_AT_WITHIN:
        node.seen_at = now
        node.save()
    gpus = [_columns(gpu) for gpu in seen.gpus]
    if gpus != ([_columns(gpu) for gpu in node.gpus.all()] if before[0] else []):
        node.gpus.all().delete()
        Gpu.objects.bulk_create(Gpu(node=node, **columns) for columns in gpus)
        return True
    return is_news


def _columns(gpu: ObservedGpu | Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "memory_bytes": gpu.memory_bytes,
        "driver": gpu.driver,
    }
