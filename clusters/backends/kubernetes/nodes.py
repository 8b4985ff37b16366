"""Nodes of the API in our words. Fields: kubernetes.io/docs/reference/kubernetes-api, Node v1."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from clusters.backends.base import (
    CordonMark,
    GpuSharingMode,
    NodeCondition,
    ObservedGpu,
    ObservedNode,
    UnreadNode,
)
from clusters.backends.gpu_names import SHARED, WHOLE, is_gpu, is_slice
from clusters.backends.kubernetes.quantities import whole
from clusters.backends.placement import Taint, TaintEffect

Document = Mapping[str, Any]

CORDON = "slipway.io/cordon"
"""Annotation of a node that Slipway cordoned: who, why and since when, as JSON."""
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""Put there by the cordon itself: told as a cordon, not twice."""


def node_of(node: Document) -> ObservedNode | UnreadNode:
    """Read a node; one that cannot be read is an answer, too."""
    metadata = node["metadata"]
    try:
        return _read(metadata, node.get("spec") or {}, node.get("status") or {})
    except (KeyError, ValueError, TypeError) as error:
        return UnreadNode(
            uid=metadata["uid"],
            name=metadata["name"],
            problem=f"The cluster says of it what cannot be: {error}",
        )


def _read(metadata: Document, spec: Document, status: Document) -> ObservedNode:
    info, capacity = status.get("nodeInfo") or {}, status.get("capacity") or {}
    labels = metadata.get("labels") or {}
    return ObservedNode(
        uid=metadata["uid"],
        name=metadata["name"],
        address=_address(status),
        cpu_count=whole(capacity.get("cpu", 0)),
        memory_bytes=whole(capacity.get("memory", 0)),
        boot_id=info.get("bootID", ""),
        provider_id=spec.get("providerID", ""),
        labels=labels,
        taints=tuple(
            Taint(one["key"], TaintEffect(one["effect"]), one.get("value", ""))
            for one in spec.get("taints") or ()
            if one["key"] != _CORDON_TAINT
        ),
        conditions=tuple(
            NodeCondition(one["type"], one["status"], one.get("reason", ""), one.get("message", ""))
            for one in status.get("conditions") or ()
        ),
        cordon=cordon_of({"metadata": metadata, "spec": spec}),
        allocatable=_counts(status.get("allocatable") or {}),
        capacity=_counts(capacity),
        gpus=tuple(_gpus(metadata["uid"], labels, _counts(capacity))),
    )


def _address(status: Document) -> str:
    """The one inside the cluster, where there is one."""
    addresses = {one["type"]: one["address"] for one in reversed(status.get("addresses") or ())}
    kinds = ("InternalIP", "InternalDNS", "ExternalIP", "Hostname")
    return next((addresses[kind] for kind in kinds if kind in addresses), "")


def cordon_of(node: Document) -> CordonMark | None:
    if not (node.get("spec") or {}).get("unschedulable"):
        return None
    try:
        told = json.loads((node["metadata"].get("annotations") or {}).get(CORDON, "{}"))
        since = datetime.fromisoformat(told["since"]) if told.get("since") else None
        return CordonMark(by=str(told.get("by", "")), reason=str(told.get("reason", "")), since=since)
    except (ValueError, AttributeError, TypeError):
        return CordonMark()  # somebody else's words


def _counts(resources: Document) -> dict[str, int]:
    return {name: whole(count) for name, count in resources.items() if is_gpu(name)}


def _gpus(uid: str, labels: Document, capacity: Mapping[str, int]) -> list[ObservedGpu]:
    """List GPUs as GPU feature discovery labels the machine. The API knows no UUIDs: the place is one.

    The labels `mig.strategy` and `gpu.replicas` and the suffix `-SHARED` say what was configured. How GPUs
    are shared is read from the product, from slices that are offered, and from more offered than present.
    """
    offered = sum(capacity.get(resource, 0) for resource in (*WHOLE, SHARED))
    counted = labels.get("nvidia.com/gpu.count")
    cards = offered if counted is None else int(counted)
    product = str(labels.get("nvidia.com/gpu.product", "")).removesuffix("-SHARED")
    sharing = GpuSharingMode.MIG if "-MIG-" in product else GpuSharingMode.NONE
    unsliced = count = offered
    if offered > cards:
        strategy = labels.get("nvidia.com/gpu.sharing-strategy")
        sharing = GpuSharingMode.MPS if strategy == "mps" else GpuSharingMode.TIME_SLICING
        count = cards
    elif any(is_slice(resource) and number for resource, number in capacity.items()):
        count = cards
    driver = ".".join(
        str(labels[part])
        for part in (f"nvidia.com/cuda.driver.{name}" for name in ("major", "minor", "rev"))
        if part in labels
    )
    mebibytes = str(labels.get("nvidia.com/gpu.memory", "0"))
    return [
        ObservedGpu(
            uuid=f"{uid}/{index}",
            index=index,
            name=product.replace("-", " ") or "GPU",
            memory_bytes=int(mebibytes) * 2**20 if mebibytes.isdecimal() else 0,
            driver=driver,
            sharing=sharing if index < unsliced else GpuSharingMode.MIG,
        )
        for index in range(count)
    ]
