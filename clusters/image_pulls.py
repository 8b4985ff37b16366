"""Times that machines take to pull an image, by cluster, and the images that a machine pulled."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from django.db.models import QuerySet

from clusters.models import Cluster, ImagePull, Node
from common.actor import Actor
from images.models import RuntimeImage

PULLS_READ = 1_000
"""The latest of an image, on all clusters together."""
OF_MACHINE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PullTimes:
    """Pull times of one image on one cluster, in seconds."""

    cluster: str
    machines: int
    pulls: int
    p50: float
    p95: float


def pull_times(actor: Actor, image: RuntimeImage) -> Sequence[PullTimes]:
    """Return pull times on clusters that the actor may see, each with its latest pulls."""
    found = ImagePull.objects.filter(digest=image.digest, cluster__in=Cluster.objects.for_actor(actor))
    by_cluster: dict[str, list[tuple[str, float]]] = {}
    for cluster, machine, seconds in found.values_list("cluster__name", "machine", "seconds")[:PULLS_READ]:
        by_cluster.setdefault(cluster, []).append((machine, seconds))
    return [
        PullTimes(
            cluster=cluster,
            machines=len({machine for machine, _seconds in pulls}),
            pulls=len(pulls),
            p50=percentile([seconds for _machine, seconds in pulls], 0.5),
            p95=percentile([seconds for _machine, seconds in pulls], 0.95),
        )
        for cluster, pulls in sorted(by_cluster.items())
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: one of the values."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def pulls_on(node: Node) -> QuerySet[ImagePull]:
    """The latest of a machine."""
    return ImagePull.objects.filter(cluster=node.cluster_id, machine=node.name)[:OF_MACHINE]
