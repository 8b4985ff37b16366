"""Operations on a Kubernetes node, which is marked with each order: an earlier one comes too late."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.backends.base import (
    ClusterUnreachable,
    NodeCondition,
    ObservedNode,
    StaleDeploymentFence,
    UnreadNode,
)
from clusters.backends.kubernetes import device_plugin, operands
from clusters.backends.kubernetes.errors import granted, translated_errors
from clusters.backends.kubernetes.jobs import KubernetesJobs
from clusters.backends.kubernetes.manifests import FENCE, fence_of, fence_text
from clusters.backends.kubernetes.nodes import CORDON, cordon_of, node_of
from clusters.backends.kubernetes.operands import Labels
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.standing import CHECKPOINT_ASKED, pod_of
from clusters.backends.node_operations import (
    MIG_CONFIG,
    MIG_STATE,
    CordonedByOther,
    Eviction,
    NodeCommand,
    OperationUnsupported,
    UnknownNode,
    is_overtaken,
)
from clusters.backends.observed_pods import ObservedPod
from clusters.backends.placement import Taint
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobContainer, JobSpec
from kube.base import KubernetesClient, Object
from kube.errors import ApiForbidden, EvictionRefused, NotFound, ObjectChanged, ServerFault
from kube.resources import DISRUPTION_BUDGETS, NODES, PODS, Ref

ATTEMPTS = 5
ASK_AGAIN = timedelta(seconds=5)
"""A blocked eviction is answered without a time to ask again: budgets are counted anew within moments."""
TWO_BUDGETS = "more than one PodDisruptionBudget"
"""What the API server says of a pod that it never evicts."""
REBOOTS = "slipway-reboot"
REBOOT = (
    "nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--", "systemctl", "reboot",
)  # fmt: skip
"""Of the machine itself, whose process 1 the pod sees."""

NO_STATUS = (
    "Slipway may not write the conditions of machines, and needs it for drills alone: `kubectl create "
    "clusterrole slipway-drills --verb=patch --resource=nodes/status`, and bind it to its account."
)

Change = dict[str, Any]
FRESH_SECONDS = 2.0
MOST_LOOKS = 64


class RecentReads:
    """Machines as they were looked at moments ago, each for one use: a look and the change that follows from
    it cost one read. Whoever takes one changes it under its resourceVersion, and is refused if it is old.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Object]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, uid: str, node: Object) -> None:
        with self._lock:
            self._kept[uid] = (self._clock(), node)
            self._kept.move_to_end(uid)
            while len(self._kept) > MOST_LOOKS:
                self._kept.popitem(last=False)

    def take(self, uid: str) -> Object | None:
        with self._lock:
            at, node = self._kept.pop(uid, (0.0, None))
        return node if node is not None and self._clock() - at <= FRESH_SECONDS else None


class KubernetesNodeOperations:
    """A NodeOperations on `spec.unschedulable`, taints and the Eviction API."""

    def __init__(self, client: KubernetesClient, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._names: dict[str, str] = {}
        """By uid, as last seen; the uid is checked whenever the node is read."""
        self._looked_at = RecentReads()

    def cordon(self, node: str, order: NodeCommand, taint: Taint | None = None) -> None:
        def change(found: Object) -> Change:
            cordon = cordon_of(found)
            if cordon is not None and cordon.by != order.by:
                whose = cordon.by or "Somebody past Slipway"
                raise CordonedByOther(f"{whose} has cordoned this machine already.")
            tainted = {"spec": {"taints": _with(found, taint)}} if taint else {}
            if cordon is not None:
                return tainted
            told = {"by": order.by, "reason": order.reason, "since": datetime.now(UTC).isoformat()}
            return {
                "metadata": {"annotations": {CORDON: json.dumps(told)}},
                "spec": {"unschedulable": True, **tainted.get("spec", {})},
            }

        self._change(node, order, change)

    def uncordon(self, node: str, order: NodeCommand) -> None:
        def change(found: Object) -> Change:
            cordon = cordon_of(found)
            if cordon is not None and cordon.by != order.by:
                whose = cordon.by or "Somebody past Slipway"
                raise CordonedByOther(f"{whose} has cordoned this machine: it is theirs to uncordon.")
            return {"metadata": {"annotations": {CORDON: None}}, "spec": {"unschedulable": None}}

        self._change(node, order, change)

    def taint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        self._change(node, order, lambda found: {"spec": {"taints": _with(found, taint)}})

    def untaint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        self._change(node, order, lambda found: {"spec": {"taints": _without(found, taint) or None}})

    def set_condition(
        self, node: str, kind: str, condition: NodeCondition | None, order: NodeCommand
    ) -> None:
        """Patch a condition of the machine's status, which Slipway's account may not do by itself: see
        NO_STATUS.
        """
        with translated_errors():
            self._mark(node, order)
            for _ in range(ATTEMPTS):
                found = self._node(node)
                conditions = list((found.get("status") or {}).get("conditions") or ())
                others = [one for one in conditions if one["type"] != kind]
                wanted = [*others, *([_said(condition)] if condition else [])]
                version = found["metadata"]["resourceVersion"]
                patch = {"metadata": {"resourceVersion": version}, "status": {"conditions": wanted}}
                try:
                    self._client.patch(Ref(NODES, found["metadata"]["name"]), patch, subresource="status")
                except (ObjectChanged, NotFound):
                    continue
                except ApiForbidden as error:
                    raise OperationUnsupported(f"{NO_STATUS} {error}") from None
                return
        raise ClusterUnreachable(f"The machine {node} is changed by others faster than it can be written.")

    def look(self, node: str) -> ObservedNode:
        with translated_errors():
            document = self._node(node)
        self._looked_at.keep(node, document)
        found = node_of(document)
        if isinstance(found, UnreadNode):
            raise ClusterUnreachable(found.problem)
        return found

    def pods(self, node: str) -> tuple[ObservedPod, ...]:
        with translated_errors(), granted(self._client, self._settings, Feature.DRAIN):
            name = self._node(node)["metadata"]["name"]
            pods = self._client.list(PODS, fields=f"spec.nodeName={name}").items
            budgets = self._client.list(DISRUPTION_BUDGETS).items
        return tuple(pod_of(pod, budgets) for pod in pods)

    def ask_checkpoint(self, node: str, pod: ObservedPod, order: NodeCommand) -> None:
        ref = Ref(PODS, pod.name, pod.namespace)
        with translated_errors(), granted(self._client, self._settings, Feature.CHECKPOINTS):
            self._mark(node, order)
            with suppress(NotFound):
                if self._is(ref, pod):
                    asked = {CHECKPOINT_ASKED: order.by}
                    self._client.patch(ref, {"metadata": {"annotations": asked}})

    def evict(
        self,
        node: str,
        pod: ObservedPod,
        order: NodeCommand,
        *,
        grace_seconds: int | None = None,
        past_budgets: bool = False,
    ) -> Eviction:
        """Evict by the Eviction API, so that disruption budgets hold; `past_budgets`: by deletion.

        A writer that sleeps between marking the machine and this call evicts one pod too many, if it is still
        there.
        """
        ref = Ref(PODS, pod.name, pod.namespace)
        feature = Feature.FORCED_DRAIN if past_budgets else Feature.DRAIN
        with translated_errors(), granted(self._client, self._settings, feature):
            self._mark(node, order)
            try:
                if past_budgets:
                    self._client.delete(ref, uid=pod.uid, grace_seconds=grace_seconds)
                elif self._is(ref, pod):
                    self._client.evict(ref, uid=pod.uid, grace_seconds=grace_seconds)
            except (NotFound, ObjectChanged):
                pass  # gone already, or another pod by now
            except EvictionRefused as refusal:
                wait = refusal.retry_after_seconds
                return Eviction(
                    is_accepted=False,
                    blocked_by=str(refusal),
                    retry_after=timedelta(seconds=wait) if wait else ASK_AGAIN,
                )
            except ServerFault as fault:
                if TWO_BUDGETS not in str(fault):
                    raise
                return Eviction(is_accepted=False, blocked_by=str(fault), retry_after=ASK_AGAIN)
        return Eviction(is_accepted=True)

    def _is(self, ref: Ref, pod: ObservedPod) -> bool:
        """An eviction of the wrong pod is refused, too, and has spent its budget all the same."""
        return bool(self._client.get(ref)["metadata"]["uid"] == pod.uid)

    def run_job(self, node: str, job: JobSpec, order: NodeCommand) -> None:
        with translated_errors():
            self._mark(node, order)
        self._runner(node).start(job)

    def jobs(self, node: str) -> JobRunner:
        return self._runner(node)

    def reboot(self, node: str, order: NodeCommand) -> None:
        """Restart the machine by a privileged job on it: the API itself restarts none."""
        if not self._settings.jobs_image:
            raise OperationUnsupported(
                "The Kubernetes API restarts no machines. Set jobs_image in the settings of the cluster, so "
                "that a privileged job does it, or drain it and restart it with its provider's tools."
            )
        container = JobContainer(is_privileged=True)
        self.run_job(node, JobSpec(order.op_key, REBOOTS, REBOOT, container=container), order)

    def pause_operands(self, node: str, order: NodeCommand) -> None:
        """Take the label by which the GPU operator's DaemonSets select the machine, as NVIDIA's MIG manager
        does before resets.
        """
        self._relabel(node, order, operands.paused)

    def resume_operands(self, node: str, order: NodeCommand) -> None:
        self._relabel(node, order, operands.resumed)

    def set_mig_config(self, node: str, config: str, order: NodeCommand) -> None:
        """The state is set back with the wish: that of the layout before would be taken for its own."""

        def wanted(labels: Labels) -> Labels:
            if labels.get("nvidia.com/mig.capable") != "true":
                raise OperationUnsupported(
                    "The machine's label nvidia.com/mig.capable is not true: MIG manager of the GPU operator "
                    "does not run there, or its GPUs have no MIG."
                )
            is_set = labels.get(MIG_CONFIG) == config and MIG_STATE in labels
            return {} if is_set else {MIG_CONFIG: config, MIG_STATE: "pending"}

        self._relabel(node, order, wanted)

    def set_label(self, node: str, label: str, value: str | None, order: NodeCommand) -> None:
        self._change(node, order, lambda _found: {"metadata": {"labels": {label: value}}})

    def set_mps_shares(self, node: str, shares: int, order: NodeCommand) -> None:
        """Name a configuration of the device plugin, `mps-N`; the one before is kept in an annotation."""
        self._change(node, order, lambda found: device_plugin.wanted(found["metadata"], shares))

    def mps_shares(self, node: str) -> int:
        with translated_errors():
            return device_plugin.shares(self._node(node))

    def _relabel(self, node: str, order: NodeCommand, wanted: Callable[[Labels], Labels]) -> None:
        self._change(
            node,
            order,
            lambda found: {"metadata": {"labels": dict(wanted(found["metadata"].get("labels") or {}))}},
        )

    def _runner(self, node: str) -> KubernetesJobs:
        with translated_errors():
            name = self._node(node)["metadata"]["name"]
        return KubernetesJobs(self._client, self._settings, node=name, uid=node)

    def _change(self, node: str, order: NodeCommand, change: Callable[[Object], Change]) -> None:
        """Under the resourceVersion that was looked at: whoever was overtaken meanwhile looks again."""
        with translated_errors():
            for attempt in range(ATTEMPTS):
                # What was looked at a moment ago serves, as long as nobody has changed it since.
                looked_at = self._looked_at.take(node) if attempt == 0 else None
                found = looked_at or self._node(node)
                self._check(found, order)
                try:
                    wanted = change(found)
                except CordonedByOther:
                    if looked_at is None:
                        raise
                    continue
                metadata = wanted.setdefault("metadata", {})
                metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
                metadata.setdefault("annotations", {})[FENCE] = fence_text(order.fence)
                try:
                    self._client.patch(Ref(NODES, found["metadata"]["name"]), wanted)
                except (ObjectChanged, NotFound):
                    continue
                return
        raise ClusterUnreachable(f"The machine {node} is changed by others faster than it can be written.")

    def _mark(self, node: str, order: NodeCommand) -> None:
        if fence_of(self._node(node)) != order.fence:
            self._change(node, order, lambda _: {})

    def _check(self, node: Object, order: NodeCommand) -> None:
        before = fence_of(node)
        if is_overtaken(order.fence, before):
            raise StaleDeploymentFence(
                f"This machine was set by {before}, which is later than {order.fence}."
            )

    def _node(self, uid: str) -> Object:
        if name := self._names.get(uid):
            try:
                found = self._client.get(Ref(NODES, name))
            except NotFound:
                found = None
            if found is not None and found["metadata"]["uid"] == uid:
                return found
        # Thousands of whole nodes would not fit in memory.
        self._names = dict(self._client.gather(NODES, keep=_name_by_uid).items)
        if uid in self._names:
            with suppress(NotFound):
                found = self._client.get(Ref(NODES, self._names[uid]))
                if found["metadata"]["uid"] == uid:
                    return found
        raise UnknownNode(f"The cluster has no machine of the uid {uid}.")


def _name_by_uid(node: Object) -> tuple[str, str]:
    return node["metadata"]["uid"], node["metadata"]["name"]


def _with(node: Object, taint: Taint) -> list[Change]:
    wanted = {"key": taint.key, "effect": taint.effect.value}
    if taint.value:
        wanted["value"] = taint.value
    return [*_without(node, taint), wanted]


def _without(node: Object, taint: Taint) -> list[Change]:
    """The other taints as they are, also those that others set."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return [one for one in taints if (one["key"], one["effect"]) != (taint.key, taint.effect)]


def _said(condition: NodeCondition) -> Change:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = {"type": condition.type, "status": condition.status, "reason": condition.reason}
    return words | {
        "message": condition.message,
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }
