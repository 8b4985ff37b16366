"""Which machines stand for each other, and which may fail together: by the labels of their provider."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from clusters.models import Cluster, Node
from clusters.states import NodeState
from clusters.topology import POOL_LABELS

DOMAIN_LABELS = (
    "slipway.io/rack",
    "nvidia.com/gpu.clique",
    "topology.kubernetes.io/rack",
    "cloud.google.com/gce-topology-block",
)
"""Of what machines share and may lose together: an NVLink domain, a rack."""
MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class MachineGroups:
    """Machines of a cluster that are there, by pool and by domain."""

    pools: Mapping[str, frozenset[int]] = field(default_factory=dict)
    domains: Mapping[str, frozenset[int]] = field(default_factory=dict)


_kept: dict[int, tuple[datetime, MachineGroups]] = {}
"""By cluster, with the survey that they are of: labels change by a survey alone."""
_lock = threading.Lock()


def pool_of(node: Node) -> str:
    """`cluster/pool`: by the label of its provider's node pool, else all machines of the cluster."""
    return _pool(node.cluster.name, node.labels)


def domain_of(labels: Mapping[str, Any]) -> str:
    return _labelled(labels, DOMAIN_LABELS)


def groups_of(cluster_id: int) -> MachineGroups:
    """Thousands of labels are read once for each survey, not for each incident of a storm."""
    row = Cluster.objects.filter(pk=cluster_id).values_list("name", "surveyed_at").first()
    if row is None:
        return MachineGroups()
    name, surveyed_at = row
    with _lock:
        held = _kept.get(cluster_id)
    if held is not None and held[0] == surveyed_at:
        return held[1]
    found = _read(cluster_id, name)
    if surveyed_at is not None:
        with _lock:
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[cluster_id] = (surveyed_at, found)
    return found


def _read(cluster_id: int, name: str) -> MachineGroups:
    pools: dict[str, set[int]] = {}
    domains: dict[str, set[int]] = {}
    rows = Node.objects.filter(cluster_id=cluster_id).exclude(state=NodeState.GONE)
    for pk, labels in rows.values_list("pk", "labels"):
        pools.setdefault(_pool(name, labels), set()).add(pk)
        if domain := domain_of(labels):
            domains.setdefault(domain, set()).add(pk)
    return MachineGroups(
        {one: frozenset(members) for one, members in pools.items()},
        {one: frozenset(members) for one, members in domains.items()},
    )


def _pool(cluster: str, labels: Mapping[str, Any]) -> str:
    return f"{cluster}/{_labelled(labels, POOL_LABELS) or 'default'}"


def _labelled(labels: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((str(labels[name]) for name in names if labels.get(name)), "")
