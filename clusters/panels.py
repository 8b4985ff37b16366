"""Panels of the apps above on the pages of clusters and machines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.models import Cluster, Node


@dataclass(frozen=True, slots=True)
class ClusterPanel:
    template: str
    """Gets what was read as `panel`, beside `row` and `may_operate` of the page."""
    read: Callable[[Cluster], Any]


@dataclass(frozen=True, slots=True)
class NodePanel:
    template: str
    """As of a `ClusterPanel`."""
    read: Callable[[Node], Any]


_panels: list[ClusterPanel] = []
_node_panels: list[NodePanel] = []


def register_cluster_panel(panel: ClusterPanel) -> None:
    """Registering twice changes nothing."""
    if panel not in _panels:
        _panels.append(panel)


def cluster_panels(cluster: Cluster) -> Sequence[tuple[str, Any]]:
    """Each with its template."""
    return [(one.template, one.read(cluster)) for one in _panels]


def register_node_panel(panel: NodePanel) -> None:
    """Registering twice changes nothing."""
    if panel not in _node_panels:
        _node_panels.append(panel)


def node_panels(node: Node) -> Sequence[tuple[str, Any]]:
    """Each with its template."""
    return [(one.template, one.read(node)) for one in _node_panels]
