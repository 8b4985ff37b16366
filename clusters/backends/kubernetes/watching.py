"""What changes in a Kubernetes cluster is heard at once, instead of at the next look."""

from collections.abc import Callable
from threading import Event, Thread

from clusters.backends.base import ObservedNode, ObservedWorker, UnreadNode
from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes.pods import worker_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from kube.base import Client, Object
from kube.informer import Informer
from kube.resources import NODES, PODS

Worker = tuple[str, ObservedWorker]
"""With the name of its deployment."""
Node = ObservedNode | UnreadNode


def watch(
    client: Client,
    settings: KubernetesSettings,
    stop: Event,
    *,
    deployment_changed: Callable[[str], None],
    machines_changed: Callable[[], None],
) -> list[Thread]:
    """Tell of workers and machines until `stop`, from threads that end some time after it."""

    def worker_changed(before: Worker | None, after: Worker | None) -> None:
        for one in {pair[0] for pair in (before, after) if pair is not None}:
            deployment_changed(one)

    def machine_changed(before: Node | None, after: Node | None) -> None:
        if before is None or after is None or before != after:
            machines_changed()

    informers: list[Informer[Worker] | Informer[Node]] = [
        Informer(client, PODS, keep=_worker, changed=worker_changed, namespace=namespace, labels=DEPLOYMENT)
        for namespace in settings.all_namespaces
    ]
    informers.append(Informer(client, NODES, keep=node_of, changed=machine_changed))
    threads = [
        Thread(target=one.run, args=(stop,), name=f"watching {number}", daemon=True)
        for number, one in enumerate(informers)
    ]
    for thread in threads:
        thread.start()
    return threads


def _worker(pod: Object) -> Worker:
    return pod["metadata"]["labels"][DEPLOYMENT], worker_of(pod)
