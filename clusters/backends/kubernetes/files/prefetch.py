"""Images and files come to machines before workers do: by a Job a machine, with what pods have, and no GPU.

Where all machines read one copy of the files, the Job pulls the image alone. Jobs belong to the deployment's
anchor, and go with it or when its workers begin.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from clusters.backends.base import (
    CannotRun,
    DeploymentSpec,
    FilesFetch,
    FilesPending,
    ObservedNode,
    UnreadNode,
)
from clusters.backends.gpu_names import WHOLE
from clusters.backends.kubernetes.files.base import CONFINED, Document, FilesMount
from clusters.backends.kubernetes.files.version_claims import size_of
from clusters.backends.kubernetes.groups import set_name
from clusters.backends.kubernetes.image_loading import loading_of, needs_pull
from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.nodes import node_of
from clusters.backends.kubernetes.pods import FILES_CONTAINER, pull_failure_of, why_not_done
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.templates import toleration
from clusters.backends.placement import TaintEffect, Toleration
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, ApiForbidden, KubeError, NotFound, ObjectChanged
from kube.resources import DEPLOYMENTS, JOBS, LEADER_WORKER_SETS, NODES, PODS, Ref
from model_store.fetch_progress import FetchProgress

Seen = ObservedNode | UnreadNode
PREFETCH = "slipway.io/prefetch"
IMAGE_CONTAINER = "image"
_CANNOT_START = ("StartError", "ContainerCannotRun")
"""An image without the program `true` was pulled all the same."""
NODE = "slipway.io/node"
HOSTNAME = "kubernetes.io/hostname"
TRIES = 2
"""Of one Job, after its first."""
MOST_JOBS = 3
"""Of one machine, one after the other; then its files come with its workers, or not at all."""
AGAIN_AFTER_SECONDS = 30.0
TRY = "slipway.io/try"
PROBLEM = "slipway.io/problem"
LONGEST_PROBLEM = 300
LOGS_READ = 16
LOG_LINES = 20
MACHINES_NAMED = 3


class PrefetchPods:
    def __init__(
        self,
        client: KubernetesClient,
        settings: KubernetesSettings,
        namespace: str,
        *,
        nodes: Callable[[], Sequence[Seen]] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`nodes`: machines as they were seen lately; None: they are listed."""
        self._nodes = nodes or (lambda: client.gather(NODES, keep=node_of).items)
        self._clock = clock
        self._client = client
        self._settings = settings
        self._namespace = namespace

    def bring(self, spec: DeploymentSpec, mount: FilesMount, *, owner: Document) -> None:
        """Return when as many machines as are asked for have image and files, or all others have failed for
        good: where some have them, workers can run. Raises FilesPending, and CannotRun where none has."""
        if not mount.is_per_machine and not spec.image:
            return
        jobs = _latest(self._jobs(spec))
        given_up = {name for name, job in jobs.items() if _has_given_up(job)}
        machines = self._machines(spec, first=[name for name in jobs if name not in given_up])
        if spec.prefetch_machines and len(machines) > spec.prefetch_machines:
            # One to which they do not come is replaced by another, as long as there is one.
            machines.sort(key=lambda one: one.name in given_up)
            machines = machines[: spec.prefetch_machines]
        if not machines:
            raise CannotRun(f"No machine that is ready could run workers of {spec.name}.")
        machines = [one for one in machines if mount.is_per_machine or self._pulls(spec, one)]
        for machine in machines:
            if machine.name not in jobs:
                self._begin(jobs, self._job(spec, mount, machine, owner))
        what = "files" if mount.is_per_machine else "image"
        pods = self._pods(spec)
        fetches, faults, whole = [], [], 0
        for number, machine in enumerate(machines):
            job = jobs.get(machine.name)
            ended, problem = _ended(job), _problem_of(job)
            if ended == "Failed" and _was_pulled(pods.get(machine.name)):
                ended, problem = "Complete", ""
            if ended == "Failed" and job is not None:
                problem = _why(pods.get(machine.name))
                if _has_given_up(job):
                    faults.append(f"{machine.name}: {problem}")
                elif self._is_due_again(job):
                    again = self._job(spec, mount, machine, owner, number=_try_of(job) + 1, problem=problem)
                    self._begin(jobs, again)
            whole += ended == "Complete"
            pod = pods.get(machine.name) if number < LOGS_READ and ended != "Failed" else None
            size = size_of(spec) if mount.is_per_machine else 0
            come = self._come(size, machine.name, pod, is_whole=ended == "Complete")
            fetches.append(replace(come, problem="" if ended == "Complete" else problem))
        if whole + len(faults) < len(machines):
            failures = (pull_failure_of(pod, IMAGE_CONTAINER) for pod in pods.values())
            pull_failure = next(filter(None, failures), "")
            raise FilesPending(_words(what, fetches), tuple(fetches), pull_failure=pull_failure)
        if faults and not whole:
            more = f" and {len(faults) - MACHINES_NAMED} more" if len(faults) > MACHINES_NAMED else ""
            do = "do" if mount.is_per_machine else "does"
            raise CannotRun(f"Its {what} {do} not come to {'; '.join(faults[:MACHINES_NAMED])}{more}")

    def _begin(self, jobs: dict[str, Object], wanted: Document) -> None:
        """Begin the jobs. Remains of the deployment's former state, or another writer's, show at the next
        look.
        """
        with suppress(AlreadyExists):
            jobs[wanted["metadata"]["annotations"][NODE]] = self._client.create(wanted)

    def _is_due_again(self, job: Object) -> bool:
        ended_at = max((one.get("lastTransitionTime", "") for one in job["status"]["conditions"]), default="")
        try:
            age = (self._clock() - datetime.fromisoformat(ended_at)).total_seconds()
        except ValueError:
            return True
        return age >= AGAIN_AFTER_SECONDS * _try_of(job)

    def forget(self, spec: DeploymentSpec) -> None:
        """Its workers begin, or it is over."""
        self._end(self._jobs(spec))

    def _end(self, jobs: Iterable[Object]) -> None:
        for job in jobs:
            ref = Ref(JOBS, job["metadata"]["name"], self._namespace)
            try:
                self._client.delete(ref, uid=job["metadata"]["uid"])
            except (NotFound, ObjectChanged):
                continue

    def tidy(self) -> None:
        """Remove jobs of callers that slept while workers started, or that gave up waiting."""
        try:
            jobs = self._client.list(JOBS, namespace=self._namespace, labels=PREFETCH).items
        except ApiForbidden:
            return
        for name in {job["metadata"]["labels"][PREFETCH] for job in jobs}:
            if self._has_workers(name):
                self._end(job for job in jobs if job["metadata"]["labels"][PREFETCH] == name)

    def _has_workers(self, deployment: str) -> bool:
        """Or is to have some."""
        kinds = [Ref(DEPLOYMENTS, deployment, self._namespace)]
        if self._client.serves(LEADER_WORKER_SETS):
            kinds.append(Ref(LEADER_WORKER_SETS, set_name(deployment), self._namespace))
        for ref in kinds:
            with suppress(NotFound):
                return bool(self._client.get(ref)["spec"].get("replicas"))
        return False

    def _jobs(self, spec: DeploymentSpec) -> Sequence[Object]:
        return self._client.list(JOBS, namespace=self._namespace, labels=f"{PREFETCH}={spec.name}").items

    def _pods(self, spec: DeploymentSpec) -> Mapping[str, Object]:
        """The newest of each machine."""
        found = self._client.list(PODS, namespace=self._namespace, labels=f"{PREFETCH}={spec.name}").items
        ordered = sorted(found, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))
        return {pod["metadata"]["annotations"][NODE]: pod for pod in ordered}

    def _machines(self, spec: DeploymentSpec, *, first: Sequence[str]) -> list[ObservedNode]:
        """Return machines that could run its workers; those begun with come first."""
        able = [one for one in self._nodes() if isinstance(one, ObservedNode) and could_run(spec, one)]
        able.sort(key=lambda one: (one.name not in first, one.name))
        return able

    def _job(
        self,
        spec: DeploymentSpec,
        mount: FilesMount,
        machine: ObservedNode,
        owner: Document,
        *,
        number: int = 1,
        problem: str = "",
    ) -> Document:
        """`problem`: of the one before."""
        name = f"{spec.name[:43]}-files-{hashlib.sha256(machine.name.encode()).hexdigest()[:8]}"
        name += f"-{number}" if number > 1 else ""
        labels = {MANAGED_BY: "slipway", PREFETCH: spec.name}
        annotations = {NODE: machine.name, TRY: str(number)}
        if problem:
            annotations[PROBLEM] = problem[:LONGEST_PROBLEM]
        containers = [dict(one) for one in mount.containers] if mount.is_per_machine else []
        if self._pulls(spec, machine) and spec.image not in {one["image"] for one in containers}:
            pull = {"name": IMAGE_CONTAINER, "image": spec.image, "command": ["true"]}
            containers.append(pull | {"securityContext": CONFINED})
        secrets = dict.fromkeys((*spec.placement.image_pull_secrets, *self._settings.image_pull_secrets))
        # It asks for no GPU, and so nobody lets it onto machines that are kept for those that do.
        for_gpus = [{"key": resource, "operator": "Exists"} for resource in WHOLE]
        pod: Document = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "nodeSelector": {HOSTNAME: machine.labels[HOSTNAME]},
            "tolerations": [*(toleration(one) for one in spec.placement.tolerations), *for_gpus],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10_001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": containers,
        }
        if mount.is_per_machine:
            pod["volumes"] = [{"name": "models", **mount.volume}]
        if secrets:
            pod["imagePullSecrets"] = [{"name": one} for one in secrets]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner],
            },
            "spec": {
                "backoffLimit": TRIES,
                "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
            },
        }

    def _pulls(self, spec: DeploymentSpec, machine: ObservedNode) -> bool:
        way = loading_of(machine.labels, self._settings.image_loading)
        return bool(spec.image) and needs_pull(way, spec.image_acceleration)

    def _come(self, size: int, machine: str, pod: Object | None, *, is_whole: bool) -> FilesFetch:
        if is_whole or pod is None:
            return FilesFetch(place=machine, come_bytes=size if is_whole else 0, size_bytes=size)
        try:
            ref = Ref(PODS, pod["metadata"]["name"], self._namespace)
            said = FetchProgress.of_log(self._client.logs(ref, container=FILES_CONTAINER, lines=LOG_LINES))
        except KubeError:
            said = None  # it has not begun, or its machine does not tell
        return FilesFetch(
            place=machine,
            come_bytes=said.come_bytes if said else 0,
            size_bytes=size,
            bytes_per_second=said.bytes_per_second if said else None,
        )


def could_run(spec: DeploymentSpec, node: ObservedNode) -> bool:
    """Whether the scheduler may put one of its workers there, as far as the machine itself says."""
    placement = spec.placement
    tolerations = (*placement.tolerations, *(Toleration(key=resource) for resource in WHOLE))
    hard = [taint for taint in node.taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE]
    needs_gpus = spec.resources.gpus if spec.device != "cpu" else 0
    return (
        node.is_ready
        and node.cordon is None
        and HOSTNAME in node.labels
        and placement.node_selector.items() <= node.labels.items()
        and all(any(one.covers(taint) for one in tolerations) for taint in hard)
        and len(node.gpus or ()) >= needs_gpus
    )


def _latest(jobs: Iterable[Object]) -> dict[str, Object]:
    """The last try of each machine."""
    ordered = sorted(jobs, key=_try_of)
    return {job["metadata"]["annotations"][NODE]: job for job in ordered}


def _try_of(job: Object) -> int:
    return int(job["metadata"]["annotations"].get(TRY, "1"))


def _has_given_up(job: Object) -> bool:
    return _ended(job) == "Failed" and _try_of(job) >= MOST_JOBS


def _problem_of(job: Object | None) -> str:
    """Why the try before it failed."""
    return str(job["metadata"]["annotations"].get(PROBLEM, "")) if job else ""


def _words(what: str, fetches: Sequence[FilesFetch]) -> str:
    words = "Its files are being brought to machines before workers start."
    if what == "image":
        words = "Its image is being pulled by machines before workers start."
    failed = [f"{one.place}: {one.problem}" for one in fetches if one.problem]
    if not failed:
        return words
    more = f" and {len(failed) - MACHINES_NAMED} more" if len(failed) > MACHINES_NAMED else ""
    return f"{words} Not yet to {'; '.join(failed[:MACHINES_NAMED])}{more}"


def _was_pulled(pod: Object | None) -> bool:
    """Whether nothing but the start of the image's container failed."""
    found = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
    ends = {one["name"]: (one.get("state") or {}).get("terminated") or {} for one in found}
    return ends.pop(IMAGE_CONTAINER, {}).get("reason") in _CANNOT_START and all(
        end.get("exitCode") == 0 for end in ends.values()
    )


def _ended(job: Object | None) -> str:
    """`Complete`, `Failed`, or empty."""
    conditions = ((job or {}).get("status") or {}).get("conditions") or ()
    ends = ("Complete", "Failed")
    return next((one["type"] for one in conditions if one["type"] in ends and one["status"] == "True"), "")


def _why(pod: Object | None) -> str:
    return (why_not_done(pod) if pod else "") or "its Job failed."
