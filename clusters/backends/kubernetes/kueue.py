"""Quotas of pools as Kueue's objects (kueue.x-k8s.io/v1beta2), and what Kueue says of its workloads in words.

Each pool has a ResourceFlavor of its machines, a ClusterQueue and a LocalQueue; one Cohort holds what all may
use. Cards that a pool is not guaranteed belong to the cohort. A ClusterQueue has no limit on all that it
borrows together: its limit holds for the machines of each other pool. Workloads take cards of one machine,
which Kueue sees to by a Topology; without it, it would count the cards of all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.backends.gpu_names import NVIDIA
from clusters.backends.kubernetes.errors import granted, translated_errors
from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import OperationUnsupported
from clusters.backends.workloads import ObservedQuota, QueuedWorkload, Quota
from kube.base import KubernetesClient, Object
from kube.errors import InvalidObject, NotFound
from kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITIES,
    WORKLOADS,
    Ref,
    Resource,
)

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
ONE_MACHINE = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
OWNER = "slipway.io/namespace"
"""Label of objects outside of namespaces: the installation that they belong to."""

REASONS: Mapping[str, str] = {
    "ExceedsMaxQuota": "It wants more cards than its queue may ever have",
    "Inadmissible": "Its queue admits nothing",
    "Misconfigured": "Its queue is not set up",
    "NoMatchingFlavor": "No machines of its queue fit it",
    "PendingEvaluation": "Kueue has not looked at it yet",
    "Suspended": "Its queue is stopped",
    "TopologyPlacementFailed": "No one machine has so many free cards",
    "WaitingForPodsReady": "Workloads before it have not started yet",
    "WaitingForPreemptedWorkloads": "Others are leaving to make room for it",
    "WaitingForQuota": "Its queue has no free cards",
}
"""By Kueue's reason for having reserved no quota."""
EVICTIONS: Mapping[str, str] = {
    "AdmissionCheck": "an admission check of the cluster failed",
    "ClusterQueueStopped": "its queue was stopped",
    "Deactivated": "it was deactivated",
    "LocalQueueStopped": "its queue was stopped",
    "NodeFailures": "its machine failed",
    "PodsReadyTimeout": "its pods were not ready in time",
    "Preempted": "it gave way to others",
}
PREEMPTIONS: Mapping[str, str] = {
    "InClusterQueue": "it gave way to a higher priority of its pool",
    "InCohortFairSharing": "it gave way to a pool that has less than its share",
    "InCohortReclaimWhileBorrowing": "it gave way to a pool that borrows, too",
    "InCohortReclamation": "it gave the cards back to the pool that they belong to",
}


class KueueQuotas:
    """A QuotaKeeper."""

    def __init__(self, client: KubernetesClient, settings: KubernetesSettings) -> None:
        self._client = client
        self._namespace = settings.jobs_namespace or settings.namespace
        self._settings = settings

    def put(self, cohort: Sequence[Quota]) -> None:
        with translated_errors(), granted(self._client, self._settings, Feature.QUEUES):
            if not self._client.serves(CLUSTER_QUEUES):
                raise OperationUnsupported(
                    "The cluster does not serve kueue.x-k8s.io/v1beta2: install Kueue, or let Slipway admit "
                    "workloads."
                )
            try:
                for document in self._documents(cohort):
                    self._client.apply(document, force=True)
            except InvalidObject as error:
                raise OperationUnsupported(f"Kueue does not take the quota: {error}") from None
            self._remove_others({one.name for one in cohort})

    def observe(self, name: str) -> ObservedQuota | None:
        with translated_errors(), granted(self._client, self._settings, Feature.QUEUES):
            try:
                found = self._client.get(Ref(CLUSTER_QUEUES, self._wide(name)))
            except NotFound:
                return None
            rows = self._client.list(WORKLOADS, namespace=self._namespace).items
        status = found.get("status") or {}
        usage = [
            resource
            for flavor in status.get("flavorsUsage") or ()
            for resource in flavor["resources"]
            if resource["name"] == NVIDIA
        ]
        active = conditions(status).get("Active", {})
        problem = "" if active.get("status") == "True" else "Kueue has not taken the queue yet."
        if active.get("status") == "False":
            problem = str(active.get("message") or active.get("reason") or "The queue is not active.")
        mine = [row for row in rows if row["spec"].get("queueName") == name and not _is_admitted(row)]
        return ObservedQuota(
            problem=problem,
            used=sum(int(one.get("total") or 0) for one in usage),
            borrowed=sum(int(one.get("borrowed") or 0) for one in usage),
            admitted=int(status.get("admittedWorkloads") or 0),
            pending=int(status.get("pendingWorkloads") or 0),
            workloads=tuple(
                QueuedWorkload(name=row["metadata"]["name"], why=words) for row in mine if (words := why(row))
            ),
        )

    def _documents(self, cohort: Sequence[Quota]) -> list[Object]:
        """Return the objects in the order in which Kueue takes them: what is named by others comes first."""
        common = self._wide("cohort")
        shares = {one.name: _shared(one) for one in cohort}
        levels = [{"nodeLabel": "kubernetes.io/hostname"}]
        flavors = [
            {"name": self._wide(name), "resources": [{"name": NVIDIA, "nominalQuota": share}]}
            for name, share in shares.items()
        ]
        groups = [{"coveredResources": [NVIDIA], "flavors": flavors}] if flavors else []
        return [
            self._wide_object(TOPOLOGIES, "cohort", {"levels": levels}),
            *(
                self._wide_object(
                    RESOURCE_FLAVORS, one.name, {"nodeLabels": dict(one.machines), "topologyName": common}
                )
                for one in cohort
            ),
            self._wide_object(COHORTS, "cohort", {"resourceGroups": groups}),
            *(self._cluster_queue(one, cohort, shares) for one in cohort),
            *(
                {
                    "apiVersion": LOCAL_QUEUES.api_version,
                    "kind": LOCAL_QUEUES.kind,
                    "metadata": {"name": one.name, "namespace": self._namespace, "labels": self._labels()},
                    "spec": {"clusterQueue": self._wide(one.name)},
                }
                for one in cohort
            ),
        ]

    def _cluster_queue(self, quota: Quota, cohort: Sequence[Quota], shares: Mapping[str, int]) -> Object:
        """Its own machines come first: Kueue fills flavors in their order."""
        own: dict[str, Any] = {"name": NVIDIA, "nominalQuota": quota.cards - shares[quota.name]}
        if quota.lending_limit is not None:
            own["lendingLimit"] = min(own["nominalQuota"], quota.lending_limit - shares[quota.name])
        foreign: dict[str, Any] = {"name": NVIDIA, "nominalQuota": 0}
        if quota.borrowing_limit is not None:
            foreign["borrowingLimit"] = quota.borrowing_limit
        flavors = [{"name": self._wide(quota.name), "resources": [own]}] + [
            {"name": self._wide(one.name), "resources": [dict(foreign)]}
            for one in cohort
            if one.name != quota.name
        ]
        spec = {
            "cohortName": self._wide("cohort"),
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [NVIDIA], "flavors": flavors}],
            "stopPolicy": "Hold" if quota.is_stopped else "None",
        }
        return self._wide_object(CLUSTER_QUEUES, quota.name, spec)

    def _remove_others(self, names: set[str]) -> None:
        kept = {self._wide(one) for one in (*names, *(["cohort"] if names else []))}
        labels = f"{OWNER}={self._namespace}"
        for one in self._client.list(LOCAL_QUEUES, namespace=self._namespace, labels=labels).items:
            if one["metadata"]["name"] not in names:
                self._client.delete(Ref(LOCAL_QUEUES, one["metadata"]["name"], self._namespace))
        for resource in (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, TOPOLOGIES):
            for one in self._client.list(resource, labels=labels).items:
                if one["metadata"]["name"] not in kept:
                    self._client.delete(Ref(resource, one["metadata"]["name"]))

    def _wide(self, name: str) -> str:
        """Return the name of an object outside of namespaces, which several installations may share."""
        return f"{self._namespace}-{name}"

    def _labels(self) -> dict[str, str]:
        return {MANAGED_BY: "slipway", OWNER: self._namespace}

    def _wide_object(self, resource: Resource, name: str, spec: Object) -> Object:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": self._wide(name), "labels": self._labels()},
            "spec": spec,
        }


def put_priority(client: KubernetesClient, priority: int) -> str:
    """Return the name of the WorkloadPriorityClass of that value, which is made where it is missing."""
    name = f"slipway-{'p' if priority >= 0 else 'm'}{abs(priority)}"
    client.apply(
        {
            "apiVersion": WORKLOAD_PRIORITIES.api_version,
            "kind": WORKLOAD_PRIORITIES.kind,
            "metadata": {"name": name, "labels": {MANAGED_BY: "slipway"}},
            "value": priority,
        },
        force=True,
    )
    return name


def why_queued(client: KubernetesClient, job: Object) -> str:
    """Say why Kueue holds a Job back."""
    found = client.list(WORKLOADS, namespace=job["metadata"]["namespace"]).items
    uid = job["metadata"]["uid"]
    mine = [
        row
        for row in found
        if any(owner.get("uid") == uid for owner in row["metadata"].get("ownerReferences") or ())
    ]
    return why(mine[-1]) if mine else "Kueue has not seen it yet."


def why(workload: Object) -> str:
    """Say in words why a workload of Kueue does not run; empty: it may."""
    seen = conditions(workload.get("status") or {})
    if workload["spec"].get("active") is False:
        return "It is deactivated in Kueue."
    reserved = seen.get("QuotaReserved", {})
    if reserved.get("status") == "True":
        return "" if _is_admitted(workload) else "It has its cards, and waits for checks of the cluster."
    words = []
    if (evicted := seen.get("Evicted", {})).get("status") == "True":
        reason = str(evicted.get("reason") or "")
        preempted = str(seen.get("Preempted", {}).get("reason") or "")
        cause = PREEMPTIONS.get(preempted) if reason == "Preempted" else None
        words.append(f"Kueue evicted it: {cause or EVICTIONS.get(reason, reason)}")
    if reason := str(reserved.get("reason") or ""):
        message = str(reserved.get("message") or "").rstrip(".")
        told = REASONS.get(reason, "It waits in its queue")
        words.append(f"{told} ({message})" if message else told)
    return ". ".join(words or ["It waits in its queue"]) + "."


def conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {one["type"]: one for one in status.get("conditions") or ()}


def _is_admitted(workload: Object) -> bool:
    seen = conditions(workload.get("status") or {})
    return any(seen.get(kind, {}).get("status") == "True" for kind in ("Admitted", "Finished"))


def _shared(quota: Quota) -> int:
    """Return the cards of a pool that the whole cohort may use, because nobody is guaranteed them."""
    spare = max(0, quota.cards - quota.guarantee)
    return spare if quota.lending_limit is None else min(spare, quota.lending_limit)
