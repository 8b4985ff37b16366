"""Where workloads run, and what keeps them from being moved there."""

from collections.abc import Callable

from django.utils.translation import gettext as _

from capacity.models import Pool, Workload
from clusters.backends.base import BackendError, CannotRun
from clusters.backends.configured import backend_of
from clusters.backends.workloads import RunsWorkloads, WorkloadRunner
from clusters.models import Cluster
from common.errors import Unavailable

RunnerOf = Callable[[Cluster], WorkloadRunner]


def runner_of(cluster: Cluster) -> WorkloadRunner:
    """Raises CannotRun where clusters of the kind run no workloads."""
    backend = backend_of(cluster)
    if not isinstance(backend, RunsWorkloads):
        raise CannotRun(_("Clusters of this kind run no workloads."))
    return backend.workloads


def run_name(row: Workload) -> str:
    return f"workload-{row.pk}"


def quota_name(pool: Pool) -> str:
    """Name of the pool's quota and queue, where others admit its workloads."""
    return f"pool-{pool.pk}"


def blocked(row: Workload) -> str:
    """Name of the disruption budget that keeps a workload where it is, or why nobody knows; empty: none."""
    try:
        return runner_of(row.pool.cluster).blocked_by(run_name(row))
    except (BackendError, Unavailable) as error:
        return str(error)
