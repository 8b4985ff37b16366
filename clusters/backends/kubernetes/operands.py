"""Operands of NVIDIA's GPU operator that hold GPUs open: each runs where a label of the node is `true`.

The operator adds labels that are missing and leaves the others alone: a pause lasts until it is ended.
"""

from collections.abc import Mapping

Labels = Mapping[str, str]
DEPLOY = "nvidia.com/gpu.deploy."
HOLDERS = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "client")
"""Those that NVIDIA's MIG manager stops before it resets GPUs, and clients of NVML that follow them."""
ON, PAUSED = "true", "paused-for-slipway-gpu-reset"


def paused(labels: Labels) -> Labels:
    """Labels to set: of those that run. One that is off, or paused by others, is theirs."""
    return _changed(labels, ON, PAUSED)


def resumed(labels: Labels) -> Labels:
    """Labels to set: of those that `paused` has paused."""
    return _changed(labels, PAUSED, ON)


def _changed(labels: Labels, before: str, after: str) -> Labels:
    names = (DEPLOY + name for name in HOLDERS)
    return {name: after for name in names if labels.get(name) == before}
