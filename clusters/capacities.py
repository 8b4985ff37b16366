"""Free GPUs of a cluster, by the rows: as last seen, and how old that is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clusters.backends.gpu_names import MIG_CLASS, NVIDIA
from clusters.capacity import GpuCapacity, MachineCapacity, capacity_of
from clusters.models import Cluster, Gpu, Node, Occupancy
from clusters.states import GpuState, NodeState
from common import clock

STALE_AFTER = timedelta(minutes=2)
"""Four counts, or a dozen surveys, have failed by then."""


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    types: Sequence[GpuCapacity]
    occupancy: Occupancy | None
    """None: its pods were never counted."""
    seen_at: datetime | None
    """The older of what is known of machines and of pods; None: one of them was never seen."""
    is_stale: bool
    """Shown with its age, and nothing is decided by it."""

    @property
    def pending_count(self) -> int:
        return self.occupancy.pending_count if self.occupancy else 0


def capacity(cluster: Cluster, *, now: datetime | None = None) -> ClusterCapacity:
    """Three queries."""
    now = now or clock.now()
    occupancy = Occupancy.objects.filter(cluster=cluster).first()
    counted = occupancy.seen_at if occupancy else None
    surveyed = None if cluster.problem else cluster.surveyed_at
    seen_at = min(counted, surveyed) if counted and surveyed else None
    known_at = seen_at or (min(filter(None, (counted, cluster.surveyed_at)), default=None))
    return ClusterCapacity(
        types=capacity_of(rooms_of(cluster, occupancy), occupancy.sizes if occupancy else {}),
        occupancy=occupancy,
        seen_at=known_at,
        is_stale=seen_at is None or now - seen_at > STALE_AFTER,
    )


def rooms_of(cluster: Cluster, occupancy: Occupancy | None) -> list[MachineCapacity]:
    gpus: dict[int, list[tuple[str, int, str]]] = {}
    rows = Gpu.objects.filter(cluster=cluster).exclude(state=GpuState.GONE).order_by("node", "index")
    for node_id, name, memory, sharing in rows.values_list("node", "name", "memory_bytes", "sharing"):
        gpus.setdefault(node_id, []).append((name, memory, sharing))
    devices = (occupancy.devices or {}) if occupancy else {}
    nodes = Node.objects.filter(cluster=cluster).exclude(state=NodeState.GONE).order_by("name")
    found = []
    for pk, name, state, is_cordoned, allocatable in nodes.values_list(
        "pk", "name", "state", "is_cordoned", "allocatable"
    ):
        claimable = devices.get(name, [])
        cards = gpus.get(pk) or [(one["product"], one["memory_mib"] * 2**20, "") for one in claimable]
        if claimable:
            allocatable = {**offered_by_claims(claimable), **{of: n for of, n in allocatable.items() if n}}
        product, memory, sharing = cards[0] if cards else ("", 0, "")
        found.append(
            MachineCapacity(
                name=name,
                gpu_type=product,
                memory_bytes=memory,
                sharing=sharing,
                cards=len(cards),
                allocatable=allocatable or ({"gpu": len(cards)} if cards else {}),
                used=(occupancy.used if occupancy else {}).get(name, {}),
                takes_pods=state == NodeState.READY and not is_cordoned,
            )
        )
    return found


def offered_by_claims(cards: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return what a machine offers whose driver publishes its cards in place of a device plugin: cards, and
    of each profile what is held and what there is room for, each profile for itself."""
    found = {NVIDIA: len(cards)}
    for card in cards:
        held = Counter(part["profile"] for part in card["held"])
        for profile, room in card["room"].items():
            found[MIG_CLASS + profile] = found.get(MIG_CLASS + profile, 0) + room + held[profile]
    return found
