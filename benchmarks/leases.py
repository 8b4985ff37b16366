"""Leases of machines for other work than runs of benchmarks: none measures beside it."""

from benchmarks.models import BenchmarkLease
from clusters.models import Cluster
from common import clock


def take(cluster: Cluster, holder: str) -> str:
    """Take the machines that benchmarks use unless they name a kind; return who else has them."""
    defaults = {"holder": holder, "since": clock.now()}
    lease, _made = BenchmarkLease.objects.select_related("run__benchmark").get_or_create(
        key=f"{cluster.pk}/", defaults=defaults
    )
    return "" if lease.holder == holder else str(lease.run or lease.holder)


def give_back(holder: str) -> None:
    BenchmarkLease.objects.filter(run=None, holder=holder).delete()
