"""What apps above show on a cluster's page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.models import Cluster


@dataclass(frozen=True, slots=True)
class ClusterPanel:
    template: str
    """Gets what was read as `panel`, beside `row` and `may_operate` of the page."""
    read: Callable[[Cluster], Any]


_panels: list[ClusterPanel] = []


def register_cluster_panel(panel: ClusterPanel) -> None:
    """Registering twice changes nothing."""
    if panel not in _panels:
        _panels.append(panel)


def cluster_panels(cluster: Cluster) -> Sequence[tuple[str, Any]]:
    """Each with its template."""
    return [(one.template, one.read(cluster)) for one in _panels]
