"""The rows of a cluster's machines and GPUs are made once and follow what is seen of them.

Nothing is deleted: what the cluster does not have any more is gone since a moment, and the same row again
when it is back. What could not be read is unknown, and nothing is concluded from it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from clusters.agents import AgentContact, is_silent, silent_since
from clusters.backends.base import CordonMark, ObservedGpu, ObservedNode, UnreadNode
from clusters.backends.node_observations import NodeObservation, cordon_digest, sightings_of
from clusters.events import AgentSilent
from clusters.models import Cluster, Gpu, Node
from clusters.reconcilers.row_writer import RowWriter
from clusters.states import GpuState, NodeState
from common import events

SEEN = (NodeState.READY, NodeState.NOT_READY)
BATCH = 500
SEEN_AT_WITHIN = timedelta(minutes=1)
"""How old `seen_at` may be of a machine that is there."""


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    problem: str
    """Why it takes no orders; empty when it does."""
    machines: tuple[NodeObservation, ...] | None
    """None: it did not answer."""
    heard_at: datetime | None = None
    """When this was so; None: just now."""

    @classmethod
    def of(cls, nodes: Iterable[ObservedNode | UnreadNode], *, problem: str = "") -> "ObservedCluster":
        return cls(problem, sightings_of(nodes))


def record_machines(cluster: Cluster, seen: ObservedCluster, now: datetime) -> bool:
    """Write what differs from what is known; True if anybody would want to know.

    A machine that is seen as it was written is neither read nor written: thousands of them cost a look.
    """
    if seen.machines is None:
        return _nothing_was_read(cluster, seen.problem, now)
    known = _known(cluster)
    now = seen.heard_at or now
    there = {one.uid: one for one in seen.machines}
    same = {uid for uid, one in there.items() if uid in known and known[uid].is_still(one)}
    late = Node.objects.filter(cluster=cluster, state__in=SEEN, seen_at__lte=now - SEEN_AT_WITHIN)
    for pks in _batches([known[uid].pk for uid in same]):
        late.filter(pk__in=pks).update(seen_at=now)
    other = [one.read() for uid, one in there.items() if uid not in same]
    gone = [uid for uid, row in known.items() if uid not in there and row.state != NodeState.GONE]
    if not other and not gone:
        return False
    rows = _rows_of(cluster, [known[one.uid].pk for one in other if one.uid in known])
    nodes = RowWriter(Node, now)
    for one in other:
        row = rows.setdefault(one.uid, Node(cluster=cluster, uid=one.uid, seen_at=now))
        columns = _unread(one) if isinstance(one, UnreadNode) else node_columns(one)
        nodes.note(row, columns | {"seen_as": there[one.uid].digest}, no_news=("seen_as",))
    lost = _rows_of(cluster, [known[uid].pk for uid in gone])
    for row in lost.values():
        nodes.note(row, {"state": NodeState.GONE, "problem": ""})
    nodes.flush()
    return _record_gpus(cluster, other, rows, [row.pk for row in lost.values()], now) or nodes.is_news


@dataclass(frozen=True, slots=True)
class _StoredNode:
    pk: int
    seen_as: str
    state: str
    cordon: CordonMark | None

    def is_still(self, seen: NodeObservation) -> bool:
        """A cordon is written by those who set it, too: of that what the row was seen as says nothing."""
        if self.seen_as != seen.digest or self.state not in SEEN:
            return False
        return seen.cordon_digest == cordon_digest(self.cordon)


def _known(cluster: Cluster) -> dict[str, _StoredNode]:
    columns = ("is_cordoned", "cordoned_by", "cordon_reason", "cordoned_at")
    found = Node.objects.filter(cluster=cluster).values_list("uid", "pk", "seen_as", "state", *columns)
    return {
        uid: _StoredNode(pk, seen_as, state, CordonMark(*cordon) if is_cordoned else None)
        for uid, pk, seen_as, state, is_cordoned, *cordon in found.iterator()
    }


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _rows_of(cluster: Cluster, pks: Sequence[int]) -> dict[str, Node]:
    found = (row for batch in _batches(pks) for row in Node.objects.filter(cluster=cluster, pk__in=batch))
    return {row.uid: row for row in found}


def record_agents(
    cluster: Cluster, heard: Mapping[int, AgentContact] | None, *, before: datetime | None, now: datetime
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


def _unread(seen: UnreadNode) -> dict[str, Any]:
    return {"name": seen.name, "state": NodeState.UNKNOWN, "problem": seen.problem}


def cordon_columns(cordon: CordonMark | None) -> dict[str, Any]:
    return {
        "is_cordoned": cordon is not None,
        "cordoned_by": cordon.by if cordon else "",
        "cordon_reason": cordon.reason if cordon else "",
        "cordoned_at": cordon.since if cordon else None,
    }


def node_columns(seen: ObservedNode) -> dict[str, Any]:
    return {
        "name": seen.name,
        "address": seen.address,
        "boot_id": seen.boot_id,
        "provider_id": seen.provider_id,
        "cpu_count": seen.cpu_count,
        "memory_bytes": seen.memory_bytes,
        "labels": dict(sorted(seen.labels.items())),
        "taints": [asdict(one) | {"effect": str(one.effect)} for one in sorted(seen.taints)],
        "allocatable": dict(sorted(seen.allocatable.items())),
        "capacity": dict(sorted(seen.capacity.items())),
        "conditions": [asdict(one) for one in sorted(seen.conditions, key=lambda one: one.type)],
        **cordon_columns(seen.cordon),
        "state": NodeState.READY if seen.is_ready else NodeState.NOT_READY,
        "problem": seen.problem,
    }


def _record_gpus(
    cluster: Cluster,
    seen: Iterable[ObservedNode | UnreadNode],
    rows: Mapping[str, Node],
    lost: Sequence[int],
    now: datetime,
) -> bool:
    """Store the GPUs of the `seen` machines and of those that are `lost`; others stay as they were."""
    there = {
        gpu.uuid: (rows[one.uid], gpu)
        for one in seen
        if isinstance(one, ObservedNode)
        for gpu in one.gpus or ()
    }
    unread = {rows[one.uid].pk for one in seen if isinstance(one, UnreadNode) or one.gpus is None}
    known: dict[str, Gpu] = {}
    for pks in _batches([*(rows[one.uid].pk for one in seen), *lost]):
        held = Gpu.objects.filter(cluster=cluster, node__in=pks).exclude(state=GpuState.GONE)
        known |= {row.uuid: row for row in held}
    for uuids in _batches([uuid for uuid in there if uuid not in known]):
        known |= {row.uuid: row for row in Gpu.objects.filter(cluster=cluster, uuid__in=uuids)}
    gpus = RowWriter(Gpu, now)
    for uuid, (node, gpu) in there.items():
        row = known.pop(uuid) if uuid in known else Gpu(cluster=cluster, uuid=uuid)
        gpus.note(row, _gpu_columns(node, gpu))
    for row in known.values():
        gpus.note(row, {"state": GpuState.UNKNOWN if row.node_id in unread else GpuState.GONE})
    gpus.flush()
    return gpus.is_news


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
