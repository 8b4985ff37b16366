"""Machines that have the files of a version, as workers and prefetches have shown: rows, read and kept."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from capacity.models import MachineFiles, Pool
from clusters.models import Deployment, Node, Worker
from clusters.states import WorkerState

KEPT = timedelta(days=7)
"""Longer, and a cache is likely to have given them up for others."""
SEEN_AGAIN = timedelta(hours=1)
"""Between two writes of what is so."""


def record_files(pool: Pool, now: datetime) -> None:
    """Enter versions of which a ready worker stands on a machine of the pool's cluster; forget old ones."""
    standing = Worker.objects.filter(node__cluster=pool.cluster, state=WorkerState.READY)
    there = set(standing.values_list("node", "deployment__version"))
    rows = MachineFiles.objects.filter(node__cluster=pool.cluster)
    rows.filter(seen_at__lt=now - KEPT).delete()
    recent = set(rows.filter(seen_at__gt=now - SEEN_AGAIN).values_list("node", "version"))
    remember_files(there - recent, now)


def remember_files(found: Iterable[tuple[int, int]], now: datetime) -> None:
    """Enter files by ids of machine and version."""
    MachineFiles.objects.bulk_create(
        [MachineFiles(node_id=node, version_id=version, seen_at=now) for node, version in found],
        update_conflicts=True,
        unique_fields=["node", "version"],
        update_fields=["seen_at"],
    )


def cached_services(nodes: Iterable[Node], deployments: Mapping[str, str]) -> dict[int, frozenset[str]]:
    """Return by id of a machine the services whose version lies there. deployments: names by service."""
    versions = dict(Deployment.objects.filter(name__in=deployments.values()).values_list("name", "version"))
    found: dict[int, set[int]] = {}
    rows = MachineFiles.objects.filter(node__in=[node.pk for node in nodes])
    for node, version in rows.values_list("node", "version"):
        found.setdefault(node, set()).add(version)
    return {
        node: frozenset(service for service, name in deployments.items() if versions.get(name) in there)
        for node, there in found.items()
    }
