"""Changes in a Kubernetes cluster, heard at once instead of at the next look."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any

from clusters.backends.base import ObservedWorker
from clusters.backends.kubernetes.events import event_of
from clusters.backends.kubernetes.groups import is_leader
from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes.pods import is_left_over, worker_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.standing import pod_of
from clusters.backends.kubernetes_events import KubernetesEvent, about
from clusters.backends.kubernetes_events import packed as packed_events
from clusters.backends.node_observations import packed
from clusters.backends.observed_pods import packed as packed_pod
from clusters.backends.pulls import ObservedPull, pull_of
from clusters.backends.shared_workers import packed as packed_workers
from kube.base import KubernetesClient, Object
from kube.errors import KubeError
from kube.informer import Informer
from kube.resources import EVENTS, NODES, PODS

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
NONE = "metadata.name=none"
"""Matches nothing: the answer says no more than that there is one."""
CONFIRM_EVERY_SECONDS = 5.0
PULLS_KEPT = 10_000
Packed = bytes
"""A machine, as processes share it: thousands of them cost little memory."""


@dataclass(frozen=True, slots=True)
class WatchedPod:
    deployment: str
    uid: str
    """Of its pod: one made anew under the same name has another."""
    observed: ObservedWorker
    leads: bool = False
    """A group of pods, of which its own is but one."""
    is_left_over: bool = False


def watch(
    client: KubernetesClient,
    settings: KubernetesSettings,
    stop: Event,
    *,
    deployment_changed: Callable[[str], None],
    machines_changed: Callable[[], None],
) -> "MachineWatch":
    """Tell of workers and machines until `stop`, from threads that end some time after it."""

    def worker_changed(before: WatchedPod | None, after: WatchedPod | None) -> None:
        if after is None and before is not None:
            events.left("Pod", before.observed.name, before.uid)
        elif after is not None and before is None:
            events.stands("Pod", after.observed.name, after.uid)
        workers.changed(before, after)
        for one in {worker.deployment for worker in (before, after) if worker is not None}:
            deployment_changed(one)

    nodes = Informer(
        client, NODES, keep=lambda node: packed(node_of(node)), changed=lambda *_: machines_changed()
    )
    events = EventWatch()
    ours = [
        Informer(client, PODS, keep=_worker, changed=worker_changed, namespace=namespace, labels=DEPLOYMENT)
        for namespace in settings.all_namespaces
    ]
    workers = WorkerWatch(ours)
    informers: list[Informer[WatchedPod] | Informer[Packed] | Informer[KubernetesEvent]] = [*ours, nodes]
    # Those of machines lie in the namespace `default`: who may not read them there hears of pods alone.
    for namespace, kind in (("", "Node"), *((one, "Pod") for one in settings.all_namespaces)):
        informers.append(
            Informer(
                client,
                EVENTS,
                keep=event_of,
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
    threads.append(Thread(target=lambda: confirm(client, settings, informers, stop), daemon=True))
    for thread in threads:
        thread.start()
    return MachineWatch(nodes, pods, events, workers)


def confirm(
    client: KubernetesClient, settings: KubernetesSettings, informers: Sequence[Informer[Any]], stop: Event
) -> None:
    """While nothing is heard, ask whether the cluster answers, until `stop`: one request for all that are
    heard, instead of one of each who wants to know."""
    while not stop.wait(CONFIRM_EVERY_SECONDS):
        ages = [one.age_seconds for one in informers]
        if all(age is not None and age < CONFIRM_EVERY_SECONDS for age in ages):
            continue
        with suppress(KubeError):
            client.list(PODS, namespace=settings.namespace, fields=NONE)
            for one in informers:
                one.confirm()


class MachineWatch:
    """Machines and events as `extras.WatchedMachines`."""

    def __init__(
        self, informer: Informer[Packed], pods: Informer[Packed], events: "EventWatch", workers: "WorkerWatch"
    ) -> None:
        self._informer = informer
        self._pods = pods
        self._events = events
        self._workers = workers

    def machines(self) -> Mapping[str, Packed]:
        return self._informer.snapshot()

    @property
    def age_seconds(self) -> float | None:
        return self._informer.age_seconds

    def pods(self) -> tuple[Mapping[str, Packed], float | None]:
        return self._pods.snapshot(), self._pods.age_seconds

    def workers(self) -> tuple[Mapping[str, Packed], float | None]:
        return self._workers.packed(), self._workers.age_seconds

    def events(self) -> Mapping[str, Packed]:
        return self._events.packed()

    def pulls(self) -> list[ObservedPull]:
        return self._events.pulls()


class WorkerWatch:
    """Workers of our deployments. Informers of their namespaces call it with changes, each in its thread."""

    def __init__(self, informers: Sequence[Informer[WatchedPod]]) -> None:
        self._informers = informers
        self._lock = Lock()
        self._present: dict[str, dict[str, WatchedPod]] = {}
        """By deployment, then by uid."""
        self._packed: dict[str, Packed] = {}

    @property
    def age_seconds(self) -> float | None:
        """Return the longest silence of any namespace; None: one was never heard."""
        ages = [one.age_seconds for one in self._informers]
        heard = [age for age in ages if age is not None]
        return max(heard) if len(heard) == len(ages) else None

    def changed(self, before: WatchedPod | None, after: WatchedPod | None) -> None:
        with self._lock:
            if before is not None:
                self._present[before.deployment].pop(before.uid, None)
            if after is not None:
                self._present.setdefault(after.deployment, {})[after.uid] = after
            for name in {one.deployment for one in (before, after) if one is not None}:
                held = [one for one in self._present[name].values() if not one.is_left_over]
                if held and not any(one.leads for one in held):
                    self._packed[name] = packed_workers(one.observed for one in held)
                else:
                    self._packed.pop(name, None)
                if not self._present[name]:
                    del self._present[name]

    def packed(self) -> Mapping[str, Packed]:
        """Return the workers by deployment, without deployments whose workers are groups of pods."""
        with self._lock:
            return dict(self._packed)


class EventWatch:
    """Events by their subject. Informers call it with changes, each in its thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_subject: dict[str, Counter[KubernetesEvent]] = {}
        self._packed: dict[str, Packed] = {}
        self._changed: set[str] = set()
        self._pulls: deque[ObservedPull] = deque(maxlen=PULLS_KEPT)
        self._present: dict[str, str] = {}
        """Uids of what stands there now, by what is told of it."""

    def stands(self, kind: str, name: str, uid: str) -> None:
        """Count only events of this object under its name from now on."""
        with self._lock:
            self._present[about(kind, name)] = uid
            self._changed.add(about(kind, name))

    def left(self, kind: str, name: str, uid: str) -> None:
        with self._lock:
            if self._present.get(about(kind, name)) == uid:
                del self._present[about(kind, name)]

    def changed(self, before: KubernetesEvent | None, after: KubernetesEvent | None) -> None:
        pull = pull_of(after) if after is not None else None
        with self._lock:
            if pull is not None:
                self._pulls.append(pull)
            for one, step in ((before, -1), (after, 1)):
                if one is not None:
                    held = self._by_subject.setdefault(one.about, Counter())
                    held[one] += step
                    if held[one] <= 0:
                        del held[one]
                    self._changed.add(one.about)

    def pulls(self) -> list[ObservedPull]:
        """Pulls of images that were told of since the last call."""
        with self._lock:
            pulls = list(self._pulls)
            self._pulls.clear()
            return pulls

    def packed(self) -> Mapping[str, Packed]:
        """Another mapping each time; only what changed is packed anew."""
        with self._lock:
            for name in self._changed:
                held = self._by_subject.get(name, Counter())
                uid = self._present.get(name)
                if mine := [one for one in held if uid is None or one.uid in ("", uid)]:
                    self._packed[name] = packed_events(mine)
                else:
                    self._packed.pop(name, None)
                if not held:
                    self._by_subject.pop(name, None)
            self._changed.clear()
            return dict(self._packed)


def _worker(pod: Object) -> WatchedPod:
    metadata = pod["metadata"]
    name = metadata["labels"][DEPLOYMENT]
    return WatchedPod(name, metadata["uid"], worker_of(pod), is_leader(pod), is_left_over(pod))
