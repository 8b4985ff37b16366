"""A ClusterBackend whose workers are Pods. What is wanted, and by whom, lies in the cluster alone."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from math import inf
from threading import Event
from time import monotonic
from typing import ClassVar

from clusters.backends.abilities import BackendAbilities
from clusters.backends.base import (
    CannotRun,
    ClusterHealth,
    ClusterUnreachable,
    DeploymentSpec,
    FilesFetch,
    FilesPending,
    ObservedNode,
    ObservedScale,
    ObservedWorker,
    UnknownWorker,
    UnreadNode,
)
from clusters.backends.checks import ClusterCheck
from clusters.backends.extras import ClusterJobPlace
from clusters.backends.kubernetes.abilities import ABILITIES
from clusters.backends.kubernetes.anchors import OwnerAnchors, owner_of
from clusters.backends.kubernetes.applying import put
from clusters.backends.kubernetes.checks import checks as cluster_checks
from clusters.backends.kubernetes.checks import right_checks
from clusters.backends.kubernetes.cluster_jobs import ClusterJobs
from clusters.backends.kubernetes.containers import claims_gpu
from clusters.backends.kubernetes.devices import KubernetesDevices
from clusters.backends.kubernetes.errors import refused, translated_errors
from clusters.backends.kubernetes.files.base import FileDelivery
from clusters.backends.kubernetes.files.choice import DeliveryChoice, DeliveryFacts, choose, look, way_of
from clusters.backends.kubernetes.files.filled_claim import FilledClaim
from clusters.backends.kubernetes.files.prefetch import PrefetchPods
from clusters.backends.kubernetes.groups import FOLLOWS, is_leader, why_no_group, workers_of
from clusters.backends.kubernetes.kueue import KueueQuotas
from clusters.backends.kubernetes.leaving import mark_leaving
from clusters.backends.kubernetes.manifests import DEPLOYMENT, objects_of
from clusters.backends.kubernetes.namespace_owner import NamespaceOwner
from clusters.backends.kubernetes.node_operations import KubernetesNodeOperations
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes.pods import (
    CONTAINER,
    FILES_CONTAINER,
    fetches_files,
    is_left_over,
    worker_of,
)
from clusters.backends.kubernetes.pods_refused import check_pods_can_be_made
from clusters.backends.kubernetes.relay import set_up_relay
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.scaling import begin_with, scale_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.standing import pod_of
from clusters.backends.kubernetes.store_token import hand_out
from clusters.backends.kubernetes.watching import NONE, UNFINISHED, MachineWatch, watch
from clusters.backends.kubernetes.workloads import KubernetesWorkloads
from clusters.backends.observed_pods import ObservedPods
from clusters.states import CheckResult
from common.fence import Fence
from kube import errors
from kube.base import KubernetesClient, Object
from kube.resources import (
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    Ref,
)
from model_store.fetch_progress import FetchProgress

LOOKED_AT_AGAIN_SECONDS = 60.0
MACHINES_KEPT_SECONDS = 30.0
FETCHES_READ = 16
"""Of so many pods at the most the log is asked in one look."""
FETCH_LOG_LINES = 20


class KubernetesCluster:
    abilities: ClassVar[BackendAbilities] = ABILITIES

    def __init__(
        self,
        client: KubernetesClient,
        settings: KubernetesSettings,
        *,
        store_token: str = "",
        relay_token: str = "",
        installation: str = "",
    ) -> None:
        """`store_token`: with which its machines fetch model files; empty: they have one from elsewhere.
        `relay_token`: with which its relay reports, if it has one. `installation`: see `NamespaceOwner`."""
        self._client = client
        self._owner = NamespaceOwner(client, installation)
        self._store_token = store_token
        self._relay_token = relay_token
        self._settings = settings
        self._found: dict[str, tuple[float, DeliveryFacts]] = {}
        """By namespace, what was there of use to model files, and when."""
        self._seen: tuple[float, tuple[ObservedNode | UnreadNode, ...]] = (-inf, ())
        self.node_operations = KubernetesNodeOperations(client, settings)
        self.workloads = KubernetesWorkloads(client, settings)
        self.quotas = KueueQuotas(client, settings)
        self.devices = KubernetesDevices(client, settings)

    @property
    def client(self) -> KubernetesClient:
        """Return the client, which the cluster's gateway shares."""
        return self._client

    @property
    def namespace(self) -> str:
        return self._settings.namespace

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        namespace = spec.placement.namespace or self._settings.namespace
        if namespace not in self._settings.all_namespaces:
            allowed = ", ".join(self._settings.all_namespaces)
            raise CannotRun(f"{spec.name}: the cluster lets Slipway use {allowed}, and not {namespace}.")
        with translated_errors(), refused(spec.name):
            if spec.nodes > 1 and not self._client.serves(LEADER_WORKER_SETS):
                raise CannotRun(
                    f"{spec.name}: its workers span {spec.nodes} machines each, and the cluster has no "
                    "LeaderWorkerSet to keep such groups of pods. Install it "
                    "(https://lws.sigs.k8s.io/docs/installation/), or leave nodes_per_replica out."
                )
            if claims_gpu(spec) and not self._client.serves(RESOURCE_CLAIM_TEMPLATES):
                raise CannotRun(
                    f"{spec.name}: {spec.resources.gpu_resource} is had by a claim, and the cluster does not "
                    "serve resource.k8s.io/v1 (Kubernetes 1.34). Ask for a slice by the name of the device "
                    "plugin, such as nvidia.com/mig-1g.10gb."
                )
            self._owner.take(namespace)
            hand_out(self._client, self._settings, self._store_token, namespace=namespace)
            # First: what comes late is refused before it makes anything for its files.
            anchor = OwnerAnchors(self._client, namespace).raise_to(spec.name, fence)
            owner = owner_of(anchor)
            files = self._way(spec, namespace).mount(spec, namespace=namespace)
            if spec.prefetch_machines is not None:
                prefetch = PrefetchPods(self._client, self._settings, namespace, nodes=self._machines_seen)
                if spec.replicas:
                    prefetch.forget(spec)
                else:
                    prefetch.bring(spec, files, owner=owner)
            if spec.leaving is not None and spec.nodes == 1:
                mark_leaving(self._client, spec.name, namespace, spec.leaving)
            documents = objects_of(spec, fence=fence, settings=self._settings, files=files, owner=owner)
            if spec.leaves_scale:
                begin_with(self._client, spec, namespace)
            for document in documents:
                # Until it is handed over below: without it an API server would begin with one.
                begins = {"replicas": spec.replicas} if document["kind"] == "Deployment" else {}
                before, found = put(self._client, document, fence, begins)
            if spec.leaves_scale and before is None:
                begin_with(self._client, spec, namespace)
            check_pods_can_be_made(before, found)
            has_pods = spec.nodes == 1 or not spec.replicas or (found.get("status") or {}).get("replicas")
            if not has_pods and (why := why_no_group(self._client, spec.name, namespace)):
                raise CannotRun(f"Its pods cannot be made: {why}")

    def bring_files(self, spec: DeploymentSpec, machines: Collection[str]) -> bool:
        namespace = spec.placement.namespace or self._settings.namespace
        with translated_errors():
            anchor = OwnerAnchors(self._client, namespace).of(spec.name)
            if anchor is None or not self._machines_seen():
                return True
            # Its workers select machines by labels that these get later; its own prefetch is another one.
            ahead = replace(
                spec,
                name=f"ahead-{spec.name}"[:63],
                prefetch_machines=len(machines),
                placement=replace(spec.placement, node_selector={}),
            )
            prefetch = PrefetchPods(
                self._client,
                self._settings,
                namespace,
                nodes=lambda: [one for one in self._machines_seen() if one.name in machines],
            )
            try:
                files = self._way(spec, namespace).mount(spec, namespace=namespace)
                prefetch.bring(ahead, files, owner=owner_of(anchor))
            except FilesPending:
                return False
            except CannotRun:
                pass  # they come with its workers, or the workers say why not
            prefetch.forget(ahead)
        return True

    def _machines_seen(self) -> tuple[ObservedNode | UnreadNode, ...]:
        """All machines, listed no more often than each half a minute by this process: a prefetch asks every
        two seconds, and a cluster has thousands."""
        at, found = self._seen
        if monotonic() - at > MACHINES_KEPT_SECONDS:
            found = self._client.gather(NODES, keep=node_of).items
            self._seen = (monotonic(), found)
        return found

    def files_reason(self, spec: DeploymentSpec) -> str:
        with translated_errors():
            return self._choice(spec, spec.placement.namespace or self._settings.namespace).words

    def tidy(self, needed: Collection[str]) -> None:
        with translated_errors():
            for namespace in self._settings.all_namespaces:
                OwnerAnchors(self._client, namespace).tidy()
                PrefetchPods(self._client, self._settings, namespace).tidy()
            FilledClaim(self._client, self._settings, None).remove_unused(needed)

    def _way(self, spec: DeploymentSpec, namespace: str) -> FileDelivery:
        return way_of(self._choice(spec, namespace), self._client, self._settings)

    def _choice(self, spec: DeploymentSpec, namespace: str) -> DeliveryChoice:
        """Choose how files are delivered; the cluster's features are looked at again after a while."""
        at, found = self._found.get(namespace, (-inf, None))
        if found is None or monotonic() - at > LOOKED_AT_AGAIN_SECONDS:
            found = look(self._client, self._settings, namespace)
            self._found[namespace] = (monotonic(), found)
        return choose(found, self._settings)

    def remove(self, deployment: str, *, fence: Fence) -> None:
        with translated_errors(), refused(deployment):
            for namespace in self._settings.all_namespaces:
                OwnerAnchors(self._client, namespace).remove(deployment, fence)

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        with translated_errors():
            pods: list[Object] = []
            groups: list[ObservedWorker] = []
            for namespace in self._settings.all_namespaces:
                found = self._client.list(PODS, namespace=namespace, labels=f"{DEPLOYMENT}={deployment}")
                leaders = [pod for pod in found.items if is_leader(pod)]
                if leaders:
                    groups += workers_of(self._client, deployment, namespace, leaders)
                pods += [pod for pod in found.items if not is_leader(pod)]
        pods.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))
        left = FETCHES_READ
        workers = sorted(groups, key=lambda one: one.name)
        for pod in pods:
            if is_left_over(pod):
                continue
            worker = worker_of(pod)
            if left and fetches_files(pod):
                left -= 1
                worker = replace(worker, fetch=self._fetch_of(pod))
            workers.append(worker)
        return tuple(workers)

    def scale_of(self, deployment: str) -> ObservedScale | None:
        with translated_errors():
            found = (scale_of(self._client, deployment, one) for one in self._settings.all_namespaces)
            return next((one for one in found if one is not None), None)

    def logs(self, worker: str, *, lines: int) -> str:
        with translated_errors():
            for namespace in self._settings.all_namespaces:
                ref = Ref(PODS, worker, namespace)
                try:
                    pod = self._client.get(ref)
                except errors.NotFound:
                    continue
                if not {DEPLOYMENT, FOLLOWS} & (pod["metadata"].get("labels") or {}).keys():
                    continue
                return self._log_of(ref, pod, lines)
        raise UnknownWorker(f"The cluster has no worker {worker}.")

    def nodes(self) -> tuple[ObservedNode | UnreadNode, ...]:
        with translated_errors():
            return self._client.gather(NODES, keep=node_of).items

    def pods(self) -> ObservedPods:
        problem = ""
        with translated_errors():
            try:
                found = self._client.gather(PODS, keep=pod_of, fields=UNFINISHED).items
            except errors.ApiForbidden:
                problem = (
                    "Only pods in Slipway's own namespaces are seen: what others use counts as free. "
                    f"Grant it with `slipway cluster manifest --feature {Feature.CAPACITY}`."
                )
                found = tuple(
                    pod
                    for namespace in self._settings.all_namespaces
                    for pod in self._client.gather(
                        PODS, keep=pod_of, namespace=namespace, fields=UNFINISHED
                    ).items
                )
        return ObservedPods(found, problem)

    def health(self) -> ClusterHealth:
        try:
            with translated_errors():
                self._client.list(PODS, namespace=self._settings.namespace, fields=NONE)
        except ClusterUnreachable as error:
            return ClusterHealth(False, str(error))
        return ClusterHealth(True, "Kubernetes answers.")

    def own(self) -> tuple[ClusterCheck, ...]:
        refusals = []
        for namespace in self._settings.all_namespaces:
            # Where it cannot be asked or written, the checks say why.
            with suppress(errors.KubeError):
                try:
                    self._owner.take(namespace)
                except CannotRun as error:
                    refusals.append(ClusterCheck(f"namespace {namespace}", CheckResult.FAILED, str(error)))
        return tuple(refusals)

    def checks(self) -> tuple[ClusterCheck, ...]:
        return cluster_checks(self._client, self._settings)

    def right_checks(self) -> tuple[ClusterCheck, ...]:
        with translated_errors():
            return right_checks(self._client, self._settings)

    def job_place(self) -> ClusterJobPlace:
        return ClusterJobPlace(ClusterJobs(self._client, self._settings), self._settings.control_plane)

    def close(self) -> None:
        self._client.close()

    def hand_out_secrets(self) -> None:
        with translated_errors():
            for namespace in self._settings.all_namespaces:
                hand_out(self._client, self._settings, self._store_token, namespace=namespace)
            set_up_relay(self._client, self._settings, self._relay_token)

    def watch(
        self,
        stop: Event,
        *,
        deployment_changed: Callable[[str], None],
        machines_changed: Callable[[], None],
    ) -> MachineWatch:
        return watch(
            self._client,
            self._settings,
            stop,
            deployment_changed=deployment_changed,
            machines_changed=machines_changed,
        )

    def _fetch_of(self, pod: Object) -> FilesFetch | None:
        """Return the progress that the fetching container wrote last; one read where the kubelet tells it."""
        ref = Ref(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        try:
            text = self._client.logs(ref, container=FILES_CONTAINER, lines=FETCH_LOG_LINES)
        except errors.KubeError:
            return None
        said = FetchProgress.of_log(text)
        if said is None:
            return None
        return FilesFetch(
            place=pod["spec"].get("nodeName", ""),
            come_bytes=said.come_bytes,
            size_bytes=said.size_bytes,
            bytes_per_second=said.bytes_per_second,
        )

    def _log_of(self, ref: Ref, pod: Object, lines: int) -> str:
        """Return the log, preceded by the end of the log before the last restart while the new one is
        short.
        """
        text = self._logs_or_nothing(ref, lines, previous=False)
        missing = lines - text.count("\n")
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        restarted = any(one["name"] == CONTAINER and one.get("restartCount") for one in statuses)
        if restarted and missing > 0:
            text = self._logs_or_nothing(ref, missing, previous=True) + text
        return "\n".join(text.splitlines()[-lines:])

    def _logs_or_nothing(self, ref: Ref, lines: int, *, previous: bool) -> str:
        try:
            return self._client.logs(ref, container=CONTAINER, lines=lines, previous=previous)
        except errors.InvalidObject:
            return ""  # the container has not begun, or its last log is gone
