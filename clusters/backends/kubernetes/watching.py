"""What changes in a Kubernetes cluster is heard at once, instead of at the next look."""

from collections.abc import Callable, Mapping
from threading import Event, Thread

from clusters.backends.base import ObservedWorker
from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes.pods import worker_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.sightings import packed
from kube.base import Client, Object
from kube.informer import Informer
from kube.resources import NODES, PODS

Packed = bytes
"""A machine, as processes share it: thousands of them cost little memory."""
Worker = tuple[str, ObservedWorker]
"""With the name of its deployment."""


def watch(
    client: Client,
    settings: KubernetesSettings,
    stop: Event,
    *,
    deployment_changed: Callable[[str], None],
    machines_changed: Callable[[], None],
) -> "Machines":
    """Tell of workers and machines until `stop`, from threads that end some time after it."""

    def worker_changed(before: Worker | None, after: Worker | None) -> None:
        for one in {pair[0] for pair in (before, after) if pair is not None}:
            deployment_changed(one)

    nodes = Informer(
        client, NODES, keep=lambda node: packed(node_of(node)), changed=lambda *_: machines_changed()
    )
    informers: list[Informer[Worker] | Informer[Packed]] = [
        Informer(client, PODS, keep=_worker, changed=worker_changed, namespace=namespace, labels=DEPLOYMENT)
        for namespace in settings.all_namespaces
    ]
    informers.append(nodes)
    threads = [
        Thread(target=one.run, args=(stop,), name=f"watching {number}", daemon=True)
        for number, one in enumerate(informers)
    ]
    for thread in threads:
        thread.start()
    return Machines(nodes)


class Machines:
    """As `extras.HeardMachines`."""

    def __init__(self, informer: Informer[Packed]) -> None:
        self._informer = informer

    def machines(self) -> Mapping[str, Packed]:
        return self._informer.snapshot()

    @property
    def age_seconds(self) -> float | None:
        return self._informer.age_seconds


def _worker(pod: Object) -> Worker:
    return pod["metadata"]["labels"][DEPLOYMENT], worker_of(pod)
