"""What changes in a Kubernetes cluster is heard at once, instead of at the next look."""

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread

from clusters.backends.base import ObservedWorker
from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes.pods import worker_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.standing import pod_of
from clusters.backends.kubernetes.told import told_of
from clusters.backends.sightings import packed
from clusters.backends.standing import packed as packed_pod
from clusters.backends.told import Told
from clusters.backends.told import packed as packed_told
from kube.base import Client, Object
from kube.informer import Informer
from kube.resources import EVENTS, NODES, PODS

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
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
    events = Events()
    informers: list[Informer[Worker] | Informer[Packed] | Informer[Told]] = [
        Informer(client, PODS, keep=_worker, changed=worker_changed, namespace=namespace, labels=DEPLOYMENT)
        for namespace in settings.all_namespaces
    ]
    informers.append(nodes)
    # Those of machines lie in the namespace `default`: who may not read them there hears of pods alone.
    for namespace, kind in (("", "Node"), *((one, "Pod") for one in settings.all_namespaces)):
        informers.append(
            Informer(
                client,
                EVENTS,
                keep=told_of,
                changed=events.changed,
                namespace=namespace,
                fields=f"involvedObject.kind={kind}",
            )
        )
    pods = Informer(client, PODS, keep=lambda pod: packed_pod(pod_of(pod)), fields=UNFINISHED)
    informers.append(pods)
    threads = [
        Thread(target=one.run, args=(stop,), name=f"watching {number}", daemon=True)
        for number, one in enumerate(informers)
    ]
    for thread in threads:
        thread.start()
    return Machines(nodes, pods, events)


class Machines:
    """As `extras.HeardMachines`."""

    def __init__(self, informer: Informer[Packed], pods: Informer[Packed], events: "Events") -> None:
        self._informer = informer
        self._pods = pods
        self._events = events

    def machines(self) -> Mapping[str, Packed]:
        return self._informer.snapshot()

    @property
    def age_seconds(self) -> float | None:
        return self._informer.age_seconds

    def pods(self) -> tuple[Mapping[str, Packed], float | None]:
        return self._pods.snapshot(), self._pods.age_seconds

    def told(self) -> Mapping[str, Packed]:
        return self._events.told()


class Events:
    """What is told, by what it is about. Informers tell it of changes, each in its thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._told: dict[str, Counter[Told]] = {}
        self._packed: dict[str, Packed] = {}
        self._changed: set[str] = set()

    def changed(self, before: Told | None, after: Told | None) -> None:
        with self._lock:
            for one, step in ((before, -1), (after, 1)):
                if one is not None:
                    held = self._told.setdefault(one.about, Counter())
                    held[one] += step
                    if held[one] <= 0:
                        del held[one]
                    self._changed.add(one.about)

    def told(self) -> Mapping[str, Packed]:
        """Another mapping each time; only what changed is packed anew."""
        with self._lock:
            for about in self._changed:
                if held := self._told.get(about):
                    self._packed[about] = packed_told(held)
                else:
                    self._told.pop(about, None)
                    self._packed.pop(about, None)
            self._changed.clear()
            return dict(self._packed)


def _worker(pod: Object) -> Worker:
    return pod["metadata"]["labels"][DEPLOYMENT], worker_of(pod)
