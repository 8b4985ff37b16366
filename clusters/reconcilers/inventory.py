"""The rows of a cluster's machines and GPUs are made once and follow what is seen of them.

Nothing is deleted: what the cluster does not have any more is gone since a moment, and the same row again
when it is back. What could not be read is unknown, and nothing is concluded from it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from clusters.agents import AgentHeard, is_silent, silent_since
from clusters.backends.base import ObservedGpu, ObservedNode, UnreadNode
from clusters.events import AgentSilent
from clusters.models import Cluster, Gpu, Node
from clusters.states import GpuState, NodeState
from common import events

SEEN_AT_WITHIN = timedelta(minutes=1)
"""How old `seen_at` may be of a machine that is there."""


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    problem: str
    """Why it takes no orders; empty when it does."""
    nodes: tuple[ObservedNode | UnreadNode, ...] | None
    """None: it did not answer."""


def record_machines(cluster: Cluster, seen: ObservedCluster, now: datetime) -> bool:
    """Write what differs from what is known; True if anybody would want to know."""
    if seen.nodes is None:
        return _nothing_was_read(cluster, seen.problem, now)
    known = _known_nodes(cluster, [one.uid for one in seen.nodes])
    rows: dict[str, Node] = {}
    is_news = False
    for one in seen.nodes:
        row = rows[one.uid] = known.get(one.uid) or Node(cluster=cluster, uid=one.uid, seen_at=now)
        columns = _unread(one) if isinstance(one, UnreadNode) else node_columns(one)
        is_news |= _write(row, columns, now)
    still_there = [rows[one.uid].pk for one in seen.nodes if isinstance(one, ObservedNode)]
    late = Node.objects.filter(pk__in=still_there, seen_at__lte=now - SEEN_AT_WITHIN)
    late.update(seen_at=now)
    for uid, row in known.items():
        if uid not in rows:
            is_news |= _write(row, {"state": NodeState.GONE, "problem": ""}, now)
    return _record_gpus(cluster, seen.nodes, rows, now) or is_news


def record_agents(
    cluster: Cluster, heard: Mapping[int, AgentHeard] | None, *, before: datetime | None, now: datetime
) -> bool:
    """Write since when agents are silent. `heard`: those of machines that have one; None: nobody knows.
    `before`: when this was last looked at. True if anybody would want to know."""
    if heard is None:
        return False
    is_news = False
    rows = Node.objects.filter(Q(pk__in=heard) | Q(agent_silent_since__isnull=False), cluster=cluster)
    for pk, noted in rows.order_by("pk").values_list("pk", "agent_silent_since"):
        since = silent_since(heard.get(pk), noted, now=now)
        if since != noted:
            Node.objects.filter(pk=pk).update(agent_silent_since=since)
        was_silent = before is not None and is_silent(noted, now=before)
        if is_silent(since, now=now) and not was_silent:
            events.publish(AgentSilent(pk))
        is_news |= is_silent(since, now=now) != was_silent
    return is_news


def _nothing_was_read(cluster: Cluster, problem: str, now: datetime) -> bool:
    unknown = {"state": NodeState.UNKNOWN, "state_since": now, "problem": problem}
    nodes = Node.objects.filter(cluster=cluster).exclude(state=NodeState.GONE)
    is_news = nodes.exclude(state=NodeState.UNKNOWN).update(**unknown)
    nodes.exclude(problem=problem).update(problem=problem)
    gpus = Gpu.objects.filter(cluster=cluster, state=GpuState.PRESENT)
    gpus.update(state=GpuState.UNKNOWN, state_since=now)
    return bool(is_news)


def _known_nodes(cluster: Cluster, uids: Iterable[str]) -> dict[str, Node]:
    """Those that should be there, and those that are back."""
    rows = Node.objects.filter(~Q(state=NodeState.GONE) | Q(uid__in=list(uids)), cluster=cluster)
    return {row.uid: row for row in rows}


def _unread(seen: UnreadNode) -> dict[str, Any]:
    return {"name": seen.name, "state": NodeState.UNKNOWN, "problem": seen.problem}


def node_columns(seen: ObservedNode) -> dict[str, Any]:
    cordon = seen.cordon
    return {
        "name": seen.name,
        "address": seen.address,
        "boot_id": seen.boot_id,
        "provider_id": seen.provider_id,
        "cpu_count": seen.cpu_count,
        "memory_bytes": seen.memory_bytes,
        "labels": dict(sorted(seen.labels.items())),
        "taints": [asdict(one) | {"effect": str(one.effect)} for one in sorted(seen.taints)],
        "conditions": [asdict(one) for one in sorted(seen.conditions, key=lambda one: one.type)],
        "is_cordoned": cordon is not None,
        "cordoned_by": cordon.by if cordon else "",
        "cordon_reason": cordon.reason if cordon else "",
        "cordoned_at": cordon.since if cordon else None,
        "state": NodeState.READY if seen.is_ready else NodeState.NOT_READY,
        "problem": seen.problem,
    }


def _record_gpus(
    cluster: Cluster, seen: Iterable[ObservedNode | UnreadNode], rows: Mapping[str, Node], now: datetime
) -> bool:
    there = {
        gpu.uuid: (rows[one.uid], gpu)
        for one in seen
        if isinstance(one, ObservedNode)
        for gpu in one.gpus or ()
    }
    unread = {rows[one.uid].pk for one in seen if isinstance(one, UnreadNode) or one.gpus is None}
    known = {
        row.uuid: row
        for row in Gpu.objects.filter(~Q(state=GpuState.GONE) | Q(uuid__in=list(there)), cluster=cluster)
    }
    is_news = False
    for uuid, (node, gpu) in there.items():
        row = known.pop(uuid, None) or Gpu(cluster=cluster, uuid=uuid)
        is_news |= _write(row, _gpu_columns(node, gpu), now)
    for row in known.values():
        state = GpuState.UNKNOWN if row.node_id in unread else GpuState.GONE
        is_news |= _write(row, {"state": state}, now)
    return is_news


def _gpu_columns(node: Node, seen: ObservedGpu) -> dict[str, Any]:
    return {
        "node_id": node.pk,
        "index": seen.index,
        "name": seen.name,
        "memory_bytes": seen.memory_bytes,
        "driver": seen.driver,
        "serial": seen.serial,
        "pci_bus_id": seen.pci_bus_id,
        "sharing": str(seen.sharing),
        "state": GpuState.PRESENT,
    }


def _write(row: Node | Gpu, columns: Mapping[str, Any], now: datetime) -> bool:
    """Save what differs; True if anything did."""
    is_new = row.pk is None
    changes = {name: value for name, value in columns.items() if is_new or getattr(row, name) != value}
    if not changes:
        return False
    if "state" in changes:
        changes["state_since"] = now
    if isinstance(row, Node) and columns["state"] in (NodeState.READY, NodeState.NOT_READY):
        changes["seen_at"] = now
    for name, value in changes.items():
        setattr(row, name, value)
    row.save() if is_new else row.save(update_fields=list(changes))
    return True
