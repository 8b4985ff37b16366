"""How much of each GPU of a list of machines is in use, as their agents reported last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusters import heartbeat_records
from clusters.agents import agent_key
from clusters.fleet import NodeRow
from clusters.models import Gpu
from clusters.states import GpuState


@dataclass(frozen=True, slots=True)
class GpuMeter:
    index: int
    use: float | None
    """0..1; None: not read."""
    memory: float | None


def gpu_meters(nodes: Iterable[NodeRow]) -> dict[int, list[GpuMeter]]:
    """Return the GPUs that are present by the machine's id, in order. One query, one question to Redis."""
    keys = {node.pk: agent_key(node.cluster_id, node.uid) for node in nodes}
    rows = Gpu.objects.filter(node__in=keys, state=GpuState.PRESENT).order_by("index")
    cards = list(rows.values_list("node_id", "index", "uuid", "memory_bytes"))
    readings = heartbeat_records.readings_by_agent([keys[pk] for pk in {card[0] for card in cards}])
    found: dict[int, list[GpuMeter]] = {}
    for pk, index, uuid, total in cards:
        read = readings.get(keys[pk], {}).get(uuid, {})
        meter = GpuMeter(index, read.get("utilization_ratio"), memory_share(read, total))
        found.setdefault(pk, []).append(meter)
    return found


def memory_share(readings: Mapping[str, float | None], total: int | None) -> float | None:
    """`total`: bytes of the GPU's memory."""
    used = readings.get("memory_used_bytes")
    return used / total if used is not None and total else None
