"""The clusters that a rule may pick from, as they were last seen."""

from collections import Counter

from django.db.models import Q

from accounts.models import Team
from clusters.capacities import capacity
from clusters.choosing import EligibleCluster, OfferedGpus
from clusters.models import Cluster, Gpu, Node, Worker
from clusters.states import GpuState, MachineGroup, NodeState


def candidates(team: Team) -> list[EligibleCluster]:
    """Return the clusters of the team and the shared ones: four queries, and three for each cluster."""
    clusters = list(Cluster.objects.present().filter(Q(team=team) | Q(team=None)).order_by("name"))
    nodes = Node.objects.filter(
        cluster__in=clusters, state=NodeState.READY, group=MachineGroup.ONLINE, is_cordoned=False
    )
    clusters_of = dict(nodes.values_list("pk", "cluster_id"))
    names: dict[int, Counter[str]] = {}
    present = Gpu.objects.filter(node__in=clusters_of, state=GpuState.PRESENT)
    for node_id, name in present.values_list("node_id", "name"):
        names.setdefault(node_id, Counter())[name] += 1
    used = _used(clusters_of)
    totals: dict[int, Counter[str]] = {}
    free: dict[int, Counter[str]] = {}
    for node_id, counts in names.items():
        left = max(0, counts.total() - used[node_id])
        for name, total in counts.items():
            totals.setdefault(clusters_of[node_id], Counter())[name] += total
            # Which of a machine's cards a worker has is not known; machines have cards of one kind.
            free.setdefault(clusters_of[node_id], Counter())[name] += min(left, total)
    return [
        EligibleCluster(
            name=one.name,
            state=one.state,
            region=one.region,
            provider=one.provider,
            labels=one.labels,
            gpus=_counted(one)
            or [
                OfferedGpus(name, free[one.pk][name], total)
                for name, total in sorted(totals.get(one.pk, Counter()).items())
            ],
            seen_at=one.surveyed_at,
        )
        for one in clusters
    ]


def _counted(cluster: Cluster) -> list[OfferedGpus]:
    """Return the GPUs with those that pods of others hold; empty where they have not been counted lately."""
    found = capacity(cluster)
    if found.occupancy is None or found.is_stale:
        return []
    free: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for one in found.types:
        free[one.gpu_type, one.resource] += one.free
        total[one.gpu_type, one.resource] += one.total
    # Names of Kubernetes have a domain; machines of other clusters count theirs without a name.
    return [
        OfferedGpus(name, free[name, of], count, of if "/" in of else "")
        for (name, of), count in sorted(total.items())
    ]


def _used(nodes: dict[int, int]) -> Counter[int]:
    """GPUs that workers of ours have, by machine."""
    found: Counter[int] = Counter()
    rows = Worker.objects.filter(node__in=nodes).exclude(deployment__device="cpu")
    for node_id, resources in rows.values_list("node_id", "deployment__resources"):
        wanted = resources.get("gpus_per_worker", 1)
        found[node_id or 0] += wanted if isinstance(wanted, int) else 1
    return found
