"""The place of a machine, by labels of clouds, device plugins and people. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from common.languages import Text


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    name: str
    title: Text
    labels: Sequence[str]
    """The first that a machine has counts."""


LEVELS = (
    TopologyLevel("region", _("Region"), ("topology.kubernetes.io/region",)),
    TopologyLevel("zone", _("Zone"), ("topology.kubernetes.io/zone",)),
    TopologyLevel(
        "block",
        _("Block"),
        (
            "topology.k8s.aws/network-node-layer-2",
            "cloud.google.com/gce-topology-block",
            "network.topology.nvidia.com/spine",
        ),
    ),
    TopologyLevel(
        "rack",
        _("Rack"),
        (
            "topology.kubernetes.io/rack",
            "topology.k8s.aws/network-node-layer-3",
            "cloud.google.com/gce-topology-subblock",
            "network.topology.nvidia.com/leaf",
            "rack",
        ),
    ),
    TopologyLevel(
        "nvlink_domain",
        _("NVLink domain"),
        (
            "nvidia.com/gpu.clique",
            "topology.k8s.aws/ultraserver-id",
            "network.topology.nvidia.com/accelerator",
        ),
    ),
)
"""From wide to narrow. Sources: kubernetes.io/docs/reference/labels-annotations-taints; GPU feature discovery
(`gpu.clique`: cluster UUID and clique of an NVSwitch fabric); NVIDIA Topograph; the documentation of EKS and
GKE on the network topology of instances."""

POOL_LABELS = (
    "slipway.io/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
)
"""Names of the pool of a machine, as its provider or a person gave it; the first that it has counts."""


def place_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the known levels by name."""
    found = {}
    for level in LEVELS:
        value = next((labels[one] for one in level.labels if labels.get(one)), "")
        if value:
            found[level.name] = value
    return found
