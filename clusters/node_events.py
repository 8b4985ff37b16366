"""Events that a cluster has of a machine and of the workers on it."""

from collections.abc import Iterable
from dataclasses import replace

from clusters.backends.kubernetes_events import KubernetesEvent, about
from clusters.models import Node
from clusters.shared_machines import SharedEvents, events_about


def events_of(node: Node, workers: Iterable[str]) -> SharedEvents | None:
    """The latest first; `workers`: names of their pods. None: nobody hears the cluster, or not of late."""
    found = events_about(node.cluster, [about("Node", node.name), *(about("Pod", one) for one in workers)])
    return found and replace(found, events=tuple(one for one in found.events if _is_of(one, node)))


def _is_of(one: KubernetesEvent, node: Node) -> bool:
    """Tell whether an event is of this machine, not a former one of its name; kubelets know names alone."""
    return one.kind != "Node" or one.uid in ("", node.name, node.uid)
