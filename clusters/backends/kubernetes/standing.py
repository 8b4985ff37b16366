"""Pods and PodDisruptionBudgets of the API, as a machine's pods in our words."""

from collections.abc import Iterable, Mapping
from typing import Any

from clusters.backends.gpu_names import is_gpu, may_hold_gpu
from clusters.backends.kubernetes.groups import FOLLOWS
from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.pods import CHECKPOINT
from clusters.backends.kubernetes.quantities import whole
from clusters.backends.kubernetes.scheduling import why_unschedulable
from clusters.backends.observed_pods import (
    MOST_CHECKPOINT_SECONDS,
    CheckpointRequest,
    DisruptionBudget,
    ObservedPod,
    PodPhase,
)

Document = Mapping[str, Any]

CHECKPOINT_ASKED = "slipway.io/checkpoint-requested"
CHECKPOINT_DONE = "slipway.io/checkpoint-done"
"""The pod, or its operator, copies the value of the request there."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of what a kubelet runs by itself."""


def pod_of(pod: Document, budgets: Iterable[Document] = ()) -> ObservedPod:
    """`budgets`: those of its namespace, and of others, which do not count."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    labels = metadata.get("labels") or {}
    controller = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    phase = str(status.get("phase", PodPhase.UNKNOWN))
    return ObservedPod(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        node=spec.get("nodeName", ""),
        phase=PodPhase(phase) if phase in set(PodPhase) else PodPhase.UNKNOWN,
        owner=f"{controller['kind']} {controller['name']}" if controller else "",
        deployment=labels.get(DEPLOYMENT) or labels.get(FOLLOWS, ""),
        gpus=gpus_of(spec),
        may_hold_gpu=_may_hold_gpu(spec),
        is_daemon=controller is not None and controller["kind"] == "DaemonSet",
        is_mirror=MIRROR in (metadata.get("annotations") or {}),
        is_leaving="deletionTimestamp" in metadata,
        why=_why_waiting(status),
        local_data=()
        if {DEPLOYMENT, FOLLOWS} & labels.keys()
        else tuple(one["name"] for one in spec.get("volumes") or () if "emptyDir" in one),
        budgets=tuple(
            budget_of(one)
            for one in budgets
            if one["metadata"]["namespace"] == metadata["namespace"]
            and selects((one.get("spec") or {}).get("selector"), labels)
        ),
        checkpoint=checkpoint_of(metadata.get("annotations") or {}),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
    )


def checkpoint_of(annotations: Mapping[str, str]) -> CheckpointRequest | None:
    """Read the checkpoint that a pod wants; None also for an invalid value: the pod is evicted as any
    other.
    """
    wanted = annotations.get(CHECKPOINT, "").strip().lower()
    if wanted == "sigterm":
        return CheckpointRequest(on_sigterm=True)
    if not (wanted.isdecimal() and 0 < int(wanted[:9]) <= MOST_CHECKPOINT_SECONDS):
        return None
    asked = annotations.get(CHECKPOINT_ASKED, "")
    return CheckpointRequest(
        seconds=int(wanted), is_done=bool(asked) and annotations.get(CHECKPOINT_DONE) == asked
    )


def _why_waiting(status: Document) -> str:
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return why_unschedulable(str(one.get("message", "")))
    return ""


def budget_of(budget: Document) -> DisruptionBudget:
    metadata, status = budget["metadata"], budget.get("status") or {}
    return DisruptionBudget(
        f"{metadata['namespace']}/{metadata['name']}",
        allowed=status.get("disruptionsAllowed", 0),
        healthy=status.get("currentHealthy", 0),
        desired=status.get("desiredHealthy", 0),
    )


def gpus_of(spec: Document) -> dict[str, int]:
    """Return the GPUs that the scheduler sets aside: for all containers, or for one init container if that is
    more.
    """
    found: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, count in _asked(container):
            found[name] = found.get(name, 0) + count
    for container in spec.get("initContainers") or ():
        for name, count in _asked(container):
            found[name] = max(found.get(name, 0), count)
    return {name: count for name, count in found.items() if count}


def _may_hold_gpu(spec: Document) -> bool:
    """Tell whether the pod may hold a GPU. Resource claims (DRA) count whatever their device: a drain rather
    evicts one pod too many than leaves one on a GPU that is reset.
    """
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if spec.get("resourceClaims") or spec.get("runtimeClassName", "").startswith("nvidia"):
        return True
    return any(may_hold_gpu(name) for one in containers for name in _resources(one))


def _asked(container: Document) -> Iterable[tuple[str, int]]:
    return ((name, whole(count)) for name, count in _resources(container).items() if is_gpu(name))


def _resources(container: Document) -> dict[str, Any]:
    resources = container.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector matches, as the API does: none selects nothing, an empty one
    everything.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_matches(one, labels) for one in selector.get("matchExpressions") or ())


def _matches(expression: Document, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
