"""What may be done to a Kubernetes node. It is marked with each order: an earlier one comes too late."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.backends.base import ClusterUnreachable, StaleFence
from clusters.backends.kubernetes.errors import told
from clusters.backends.kubernetes.manifests import DEPLOYMENT, FENCE, fence_of, fence_text
from clusters.backends.kubernetes.nodes import CORDON, cordon_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import Eviction, NotPossible, Order, SomebodyElses, UnknownNode
from clusters.backends.placement import Taint
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobSpec
from kube.base import Client, Object
from kube.errors import Changed, EvictionRefused, NotFound
from kube.resources import NODES, PODS, Ref

ATTEMPTS = 5
ASK_AGAIN = timedelta(seconds=5)
"""A blocked eviction is answered without a time to ask again: budgets are counted anew within moments."""

Change = dict[str, Any]


class KubernetesNodeOperations:
    """A NodeOperations on `spec.unschedulable`, taints and the Eviction API."""

    def __init__(self, client: Client, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._names: dict[str, str] = {}
        """By uid, as last seen; the uid is checked whenever the node is read."""

    def cordon(self, node: str, order: Order) -> None:
        def change(found: Object) -> Change:
            cordon = cordon_of(found)
            if cordon is not None and cordon.by != order.by:
                whose = cordon.by or "Somebody past Slipway"
                raise SomebodyElses(f"{whose} has cordoned this machine already.")
            if cordon is not None:
                return {}
            told = {"by": order.by, "reason": order.reason, "since": datetime.now(UTC).isoformat()}
            return {"metadata": {"annotations": {CORDON: json.dumps(told)}}, "spec": {"unschedulable": True}}

        self._change(node, order, change)

    def uncordon(self, node: str, order: Order) -> None:
        def change(found: Object) -> Change:
            cordon = cordon_of(found)
            if cordon is not None and cordon.by != order.by:
                whose = cordon.by or "Somebody past Slipway"
                raise SomebodyElses(f"{whose} has cordoned this machine: it is theirs to uncordon.")
            return {"metadata": {"annotations": {CORDON: None}}, "spec": {"unschedulable": None}}

        self._change(node, order, change)

    def taint(self, node: str, taint: Taint, order: Order) -> None:
        wanted = {"key": taint.key, "effect": taint.effect.value}
        if taint.value:
            wanted["value"] = taint.value
        self._change(node, order, lambda found: {"spec": {"taints": [*_without(found, taint), wanted]}})

    def untaint(self, node: str, taint: Taint, order: Order) -> None:
        self._change(node, order, lambda found: {"spec": {"taints": _without(found, taint) or None}})

    def evict(self, worker: str, order: Order) -> Eviction:
        """By the Eviction API, so that disruption budgets hold; only pods of ours."""
        with told():
            for namespace in self._settings.all_namespaces:
                ref = Ref(PODS, worker, namespace)
                try:
                    pod = self._client.get(ref)
                    if DEPLOYMENT not in (pod["metadata"].get("labels") or {}):
                        continue
                    self._mark_machine_of(pod, order)
                    self._client.evict(ref, uid=pod["metadata"]["uid"])
                except (NotFound, Changed):
                    continue  # gone already, or another pod by now
                except EvictionRefused as refusal:
                    wait = refusal.retry_after_seconds
                    return Eviction(
                        is_accepted=False,
                        blocked_by=str(refusal),
                        retry_after=timedelta(seconds=wait) if wait else ASK_AGAIN,
                    )
        return Eviction(is_accepted=True)

    def run_job(self, node: str, job: JobSpec, order: Order) -> None:
        raise NotPossible("Slipway runs no jobs on machines of Kubernetes clusters yet.")

    def jobs(self, node: str) -> JobRunner:
        raise NotPossible("Slipway runs no jobs on machines of Kubernetes clusters yet.")

    def reboot(self, node: str, order: Order) -> None:
        raise NotPossible(
            "The Kubernetes API restarts no machines. Drain it and restart it with its provider's tools."
        )

    def _change(self, node: str, order: Order, change: Callable[[Object], Change]) -> None:
        """Under the resourceVersion that was looked at: whoever was overtaken meanwhile looks again."""
        with told():
            for _ in range(ATTEMPTS):
                found = self._node(node)
                self._check(found, order)
                wanted = change(found)
                metadata = wanted.setdefault("metadata", {})
                metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
                metadata.setdefault("annotations", {})[FENCE] = fence_text(order.fence)
                try:
                    self._client.patch(Ref(NODES, found["metadata"]["name"]), wanted)
                except (Changed, NotFound):
                    continue
                return
        raise ClusterUnreachable(f"The machine {node} is changed by others faster than it can be written.")

    def _mark_machine_of(self, pod: Object, order: Order) -> None:
        name = (pod.get("spec") or {}).get("nodeName")
        if name:
            node = self._client.get(Ref(NODES, name))
            self._change(node["metadata"]["uid"], order, lambda _: {})

    def _check(self, node: Object, order: Order) -> None:
        before = fence_of(node)
        if before is not None and order.fence < before:
            raise StaleFence(f"This machine was set by {before}, which is later than {order.fence}.")

    def _node(self, uid: str) -> Object:
        if name := self._names.get(uid):
            try:
                found = self._client.get(Ref(NODES, name))
            except NotFound:
                found = None
            if found is not None and found["metadata"]["uid"] == uid:
                return found
        nodes = self._client.list(NODES).items
        self._names = {one["metadata"]["uid"]: one["metadata"]["name"] for one in nodes}
        for one in nodes:
            if one["metadata"]["uid"] == uid:
                return one
        raise UnknownNode(f"The cluster has no machine of the uid {uid}.")


def _without(node: Object, taint: Taint) -> list[Change]:
    """The other taints as they are, also those that others set."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return [one for one in taints if (one["key"], one["effect"]) != (taint.key, taint.effect)]
