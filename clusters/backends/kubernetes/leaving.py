"""The order in which a controller ends a deployment's pods when there are more than are wanted."""

from collections.abc import Collection
from contextlib import suppress

from clusters.backends.kubernetes.manifests import DEPLOYMENT
from kube.base import KubernetesClient
from kube.errors import ApiForbidden, NotFound, ObjectChanged
from kube.resources import PODS, Ref

COST = "controller.kubernetes.io/pod-deletion-cost"
"""A ReplicaSet ends pods of a lower cost first, among those that are ready."""
FORMER_COST = "slipway.io/former-deletion-cost"
"""What it was before, or nothing: the cost is ours while a pod has this."""
FIRST = "-1000000"


def mark_leaving(client: KubernetesClient, deployment: str, namespace: str, names: Collection[str]) -> None:
    """These pods end first, and no others of it on our word. Who may not mark pods has others ended instead:
    then an eviction follows, which budgets guard."""
    pods = client.list(PODS, namespace=namespace, labels=f"{DEPLOYMENT}={deployment}").items
    for pod in pods:
        metadata = pod["metadata"]
        known = metadata.get("annotations") or {}
        is_leaving = metadata["name"] in names
        if is_leaving == (FORMER_COST in known) or "deletionTimestamp" in metadata:
            continue
        former = known.get(COST, "") if is_leaving else known.get(FORMER_COST, "")
        wanted = (
            {COST: FIRST, FORMER_COST: former} if is_leaving else {COST: former or None, FORMER_COST: None}
        )
        change = {"metadata": {"uid": metadata["uid"], "annotations": wanted}}
        with suppress(NotFound, ObjectChanged, ApiForbidden):
            client.patch(Ref(PODS, metadata["name"], namespace), change)
