"""Prometheus metrics of the fleet."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from django.db.models import Q
from prometheus_client.metrics_core import Metric

from clusters import agent_contacts, selectors
from clusters.backends.checks import missing_rights
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.backends.kubernetes.expiry import credential_ends
from clusters.fleet import ClusterSnapshot
from clusters.models import Cluster
from clusters.states import Alert, DeploymentState, WorkerState
from common import clock
from common.metrics import gauge
from common.sealed import CannotUnseal, unseal

WORKER_STATES = (*WorkerState.values, *(alert.value for alert in Alert if alert.value))


def fleet() -> Iterator[Metric]:
    found = selectors.whole_fleet().clusters
    yield gauge(
        "workers",
        "Workers by cluster and state; lost and stuck ones count as that.",
        ("cluster", "state"),
        [
            ((cluster.row.name, state), float(counts[state]))
            for cluster in found
            for counts in [_by_state(cluster)]
            for state in WORKER_STATES
        ],
    )
    yield gauge(
        "workers_crashing",
        "Workers whose process has ended three times since it was last ready for a while.",
        ("cluster",),
        [
            (
                (one.row.name,),
                float(sum(worker.crashes_again for each in one.deployments for worker in each.workers)),
            )
            for one in found
        ],
    )
    yield gauge(
        "deployments",
        "Deployments by cluster and state.",
        ("cluster", "state"),
        [
            ((cluster.row.name, state), float(counts[state]))
            for cluster in found
            for counts in [Counter(one.row.state for one in cluster.deployments)]
            for state in DeploymentState.values
        ],
    )
    yield gauge(
        "cluster_busy_ratio",
        "Share of a cluster's slots at work over the last 10 s; missing while nothing is known.",
        ("cluster",),
        [((one.row.name,), one.load.busy) for one in found if one.load.busy is not None],
    )
    yield gauge(
        "machine_busy_ratio",
        "The same of each machine.",
        ("cluster", "machine"),
        [
            ((cluster.row.name, node.row.name), node.load.busy)
            for cluster in found
            for node in cluster.nodes
            if node.load.busy is not None
        ],
    )
    yield gauge(
        "deployment_busy_ratio",
        "The same of the workers of each version of a service.",
        ("service", "version", "deployment"),
        [
            ((one.row.service, one.row.version_label, one.row.name), one.load.busy)
            for cluster in found
            for one in cluster.deployments
            if one.load.busy is not None
        ],
    )
    yield gauge(
        "agents_silent",
        "Machines whose agent has not reported for 15 s, by cluster; their workers may serve.",
        ("cluster",),
        [
            ((one.row.name,), float(sum(node.agent_silent_since is not None for node in one.nodes)))
            for one in found
        ],
    )
    present = Cluster.objects.present()
    kept = present.filter(removal_asked_at=None).order_by("name")
    yield gauge(
        "cluster_takes_orders",
        "1: its supervisor or API server answered at the last look; clusters on their way out are left out.",
        ("cluster",),
        [((name,), float(not problem)) for name, problem in kept.values_list("name", "problem")],
    )
    yield gauge(
        "cluster_rights_missing",
        "Rights that a cluster should grant and does not; those that its manifest leaves out do not count.",
        ("cluster",),
        [
            ((name,), float(len(missing_rights(checks))))
            for name, checks in kept.values_list("name", "checks")
        ],
    )
    silent = set(agent_contacts.silent_relays(present, now=clock.now()).values_list("name", flat=True))
    relays = present.filter(Q(relay_heard_at__isnull=False) | Q(relay_silent_since__isnull=False))
    yield gauge(
        "relay_silent",
        "1: the relay of the cluster has not reported for a minute; clusters without one are left out.",
        ("cluster",),
        [((name,), float(name in silent)) for name in relays.order_by("name").values_list("name", flat=True)],
    )


def credentials() -> Iterator[Metric]:
    """Yield the ends of certificates and tokens of kubeconfigs; those without an end are left out."""
    now = clock.now()
    found: dict[tuple[str, ...], float] = {}
    for cluster in Cluster.objects.present().exclude(sealed_secrets={}).order_by("name"):
        sealed, context = cluster.sealed_secrets.get("kubeconfig"), cluster.settings.get("context", "")
        for name, end in _credential_ends(sealed, context) if sealed else ():
            found[cluster.name, name] = round((end - now) / timedelta(days=1), 1)
    yield gauge(
        "cluster_credential_days",
        "Days until a certificate or token of a cluster's kubeconfig ends; below 0: it has ended.",
        ("cluster", "credential"),
        list(found.items()),
    )


@lru_cache(maxsize=1_000)
def _credential_ends(sealed: str, context: str) -> tuple[tuple[str, datetime], ...]:
    try:
        kubeconfig = unseal(sealed, purpose=SECRETS_PURPOSE)
    except CannotUnseal:
        return ()
    return tuple(credential_ends(kubeconfig, context=context))


def _by_state(cluster: ClusterSnapshot) -> Counter[str]:
    return Counter(
        worker.alert or worker.state for deployment in cluster.deployments for worker in deployment.workers
    )
