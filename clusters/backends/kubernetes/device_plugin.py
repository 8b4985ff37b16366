"""MPS shares by NVIDIA's device plugin: its configuration is named by a label of the machine, and GPU feature
discovery labels what came of it.

https://github.com/NVIDIA/k8s-device-plugin#with-cuda-mps
"""

from collections.abc import Mapping
from typing import Any

from clusters.backends.gpu_names import NVIDIA, SHARED
from clusters.backends.kubernetes.quantities import whole
from clusters.backends.node_operations import MIG_CONFIG, WHOLE_CARDS, OperationUnsupported

CONFIG = "nvidia.com/device-plugin.config"
BEFORE = "slipway.io/device-plugin-config-before"
"""Annotation with the configuration that the machine had before ours; empty: the default."""
COUNT = "nvidia.com/gpu.count"


def wanted(metadata: Mapping[str, Any], shares: int) -> dict[str, Any]:
    """Return the change of a node's metadata. Raises OperationUnsupported."""
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if COUNT not in labels:
        raise OperationUnsupported(
            f"The machine has no label {COUNT}: NVIDIA's device plugin and GPU feature discovery, which "
            "share GPUs by MPS, do not run there."
        )
    if shares and labels.get(MIG_CONFIG, WHOLE_CARDS) != WHOLE_CARDS:
        raise OperationUnsupported("MIG divides the GPUs of the machine, and MPS takes whole ones alone.")
    if not shares:
        if BEFORE not in notes:
            return {}
        return {"metadata": {"labels": {CONFIG: notes[BEFORE] or None}, "annotations": {BEFORE: None}}}
    before = notes.get(BEFORE, labels.get(CONFIG, ""))
    return {"metadata": {"labels": {CONFIG: f"mps-{shares}"}, "annotations": {BEFORE: before}}}


def shares(node: Mapping[str, Any]) -> int:
    """Return the shares of each GPU that the machine is labelled with and offers."""
    labels = node["metadata"].get("labels") or {}
    if labels.get("nvidia.com/gpu.sharing-strategy") != "mps":
        return 0
    replicas = int(labels.get("nvidia.com/gpu.replicas", 0))
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    offered = sum(whole(allocatable.get(name, 0)) for name in (NVIDIA, SHARED))
    return replicas if offered == replicas * int(labels.get(COUNT, 0)) else 0
