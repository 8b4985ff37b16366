"""Facts of machines in lists, beside their load: GPUs, who holds them, topology."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, TextField, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from clusters.backends.gpu_names import is_claimed
from clusters.models import Gpu, Node, Occupancy
from clusters.states import GpuState, NodeState
from clusters.topology import LEVELS, POOL_LABELS
from common.actor import Actor

ZONE_LABEL = next(level for level in LEVELS if level.name == "zone").labels[0]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    gpu_type: str = ""
    """Of its first GPU; empty: it has none, or none is known."""
    gpus: int = 0
    driver: str = ""
    zone: str = ""
    used: int | None = None
    """GPUs that pods hold; None: nobody has counted."""
    others: int = 0
    """Of these, by pods that are not ours."""
    free: int | None = None
    """What pods can still have: none where no new ones come."""

    @property
    def short_type(self) -> str:
        return self.gpu_type.removeprefix("NVIDIA ")


NOTHING = NodeFacts()


def machine_facts(actor: Actor) -> dict[int, NodeFacts]:
    """Return the facts by the machine's id. Three queries."""
    nodes = Node.objects.for_actor(actor)
    cards = {
        node: (name, count, driver)
        for node, name, count, driver in Gpu.objects.exclude(state=GpuState.GONE)
        .filter(node__in=nodes)
        .values("node_id")
        .annotate(name=Min("name"), count=Count("pk"), version=Min("driver"))
        .values_list("node_id", "name", "count", "version")
    }
    occupancies = {
        cluster: (used, devices or {})
        for cluster, used, devices in Occupancy.objects.exclude(seen_at=None).values_list(
            "cluster_id", "used", "devices"
        )
    }
    zone = Coalesce(KT(f"labels__{ZONE_LABEL}"), Value(""), output_field=TextField())
    rows = nodes.annotate(zone=zone).values_list("pk", "name", "cluster_id", "state", "is_cordoned", "zone")
    found = {}
    for pk, name, cluster, state, is_cordoned, zone in rows:
        used, devices = occupancies.get(cluster, (None, {}))
        claimable = devices.get(name)
        unread = (claimable[0]["product"], len(claimable), "") if claimable else ("", 0, "")
        gpu_type, gpus, driver = cards.get(pk, unread)
        held = None if used is None else _sums(used.get(name) or {})
        takes_pods = state == NodeState.READY and not is_cordoned
        found[pk] = NodeFacts(
            gpu_type=gpu_type,
            gpus=gpus,
            driver=driver,
            zone=zone,
            used=None if held is None or not gpus else sum(held),
            others=held[1] if held else 0,
            free=None if held is None or not gpus else max(0, gpus - sum(held)) * takes_pods,
        )
    return found


def places_by(level: str) -> dict[int, str]:
    """Return the `rack` or the `pool` of nodes in which each machine is, by its id; those not known are left
    out. One query.
    """
    labels = POOL_LABELS if level == "pool" else next(one for one in LEVELS if one.name == level).labels
    columns = {f"label_{place}": KT(f"labels__{label}") for place, label in enumerate(labels)}
    rows = Node.objects.exclude(state=NodeState.GONE).annotate(**columns).values_list("pk", *columns)
    return {pk: place for pk, *values in rows if (place := next(filter(None, values), ""))}


@dataclass(frozen=True, slots=True)
class PodInventory:
    """Pods on a machine and the GPUs they hold, as counted at `seen_at`."""

    ours: int
    others: int
    gpus_of_ours: int
    gpus_of_others: int
    seen_at: datetime
    problem: str
    """What could not be seen, and why."""


def standing_on(node: Node) -> PodInventory | None:
    """Return the pods on a machine; None: they have not been counted yet."""
    found = Occupancy.objects.filter(cluster=node.cluster_id).first()
    if found is None or found.seen_at is None:
        return None
    pods = found.pods.get(node.name) or {}
    gpus = _sums(found.used.get(node.name) or {})
    return PodInventory(pods.get("ours", 0), pods.get("others", 0), *gpus, found.seen_at, found.problem)


def _sums(used: Mapping[str, Mapping[str, int]]) -> tuple[int, int]:
    """GPUs that ours hold, and that others do. Of slices, too: a machine with those has no whole ones. Where
    parts are claimed, their cards count as held."""
    counted = [one for resource, one in used.items() if not is_claimed(resource)]
    return tuple(sum(one.get(whose, 0) for one in counted) for whose in ("ours", "others"))  # type: ignore[return-value]
