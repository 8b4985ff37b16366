"""Pools whose workloads the cluster's Kueue admits: their quotas there, and what it says of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.utils.translation import gettext as _

from capacity.disruption import quota_name
from capacity.ledger import machines_of
from capacity.models import CapacityStop, Pool, Workload
from capacity.states import PoolMode, WorkloadAdmission, WorkloadState
from clusters.backends.base import BackendError, CannotRun
from clusters.backends.configured import backend_of
from clusters.backends.node_operations import OperationUnsupported
from clusters.backends.workloads import KeepsQuotas, ObservedQuota, Quota, QuotaKeeper
from clusters.models import Cluster
from common.errors import Unavailable

KeeperOf = Callable[[Cluster], QuotaKeeper]


@dataclass(frozen=True)
class QuotaLook:
    """Result of a look at a pool's quota. `quota`: as its column keeps it; None: there is none any more."""

    quota: dict[str, Any] | None = None
    starts: tuple[Workload, ...] = ()
    problem: str = ""
    looks: ClassVar[tuple[Any, ...]] = ()


def keeper_of(cluster: Cluster) -> QuotaKeeper:
    """Raises CannotRun where no cluster of the kind has Kueue."""
    backend = backend_of(cluster)
    if not isinstance(backend, KeepsQuotas):
        raise CannotRun(_("Only in Kubernetes clusters can Kueue admit workloads."))
    return backend.quotas


def keep_quota(pool: Pool, keeper_of: KeeperOf = keeper_of) -> QuotaLook:
    """Tell the cluster the quotas of all its pools that Kueue admits, and look at that of this one."""
    admitted = Pool.objects.filter(cluster=pool.cluster, admission=WorkloadAdmission.KUEUE).order_by("pk")
    try:
        keeper = keeper_of(pool.cluster)
        keeper.put([quota_of(one) for one in admitted.select_related("cluster")])
        if pool.admission != WorkloadAdmission.KUEUE:
            return QuotaLook()
        found = keeper.observe(quota_name(pool))
    except (BackendError, CannotRun, OperationUnsupported, Unavailable) as error:
        return QuotaLook(pool.quota, problem=str(error))
    if found is None:
        return QuotaLook(pool.quota, problem=_("The quota was removed in the cluster; it is made again."))
    waiting = Workload.objects.filter(pool=pool, state=WorkloadState.QUEUED, held_by="")
    return QuotaLook(stored_quota(pool, found), tuple(waiting.order_by("pk")), found.problem)


def quota_of(pool: Pool) -> Quota:
    cards = sum(machine.cards for machine in machines_of(pool))
    return Quota(
        name=quota_name(pool),
        machines=pool.selector,
        cards=cards,
        guarantee=cards if pool.guarantee is None else min(pool.guarantee, cards),
        lending_limit=pool.lending_limit,
        borrowing_limit=pool.borrowing_limit,
        is_stopped=pool.state == PoolMode.OFF or CapacityStop.now().is_on,
    )


def stored_quota(pool: Pool, found: ObservedQuota) -> dict[str, Any]:
    return {
        "queue": quota_name(pool),
        "cards": quota_of(pool).cards,
        "used": found.used,
        "borrowed": found.borrowed,
        "admitted": found.admitted,
        "pending": found.pending,
        "workloads": [{"name": one.name, "why": one.why} for one in found.workloads],
    }
