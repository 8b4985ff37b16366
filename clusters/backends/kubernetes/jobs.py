"""Jobs on one machine of a Kubernetes cluster: each a Job of the API with one pod, pinned there.

Its name comes from its op_key, and it makes no second pod (backoffLimit 0, restartPolicy Never): what it does
is begun at most once, whoever orders it and however often. A machine that is cordoned or tainted runs it too.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from clusters.backends.gpu_names import NVIDIA
from clusters.backends.kubernetes.errors import granted, translated_errors
from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import OperationUnsupported
from common.errors import Unavailable
from common.jobs.spec import Ending, JobContainer, JobObservation, JobSpec, JobState
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, InvalidObject, KubeError, NotFound
from kube.resources import JOBS, PODS, Ref

OWNER = "slipway.io/job-owner"
MACHINE = "slipway.io/job-machine"
OP_KEY = "slipway.io/op-key"
"""Annotation: two op_keys never share a Job, whatever becomes of the names that are made of them."""
STOPPED = "slipway.io/stopped"
CONTAINER = "job"
LIVES_SECONDS = 7 * 24 * 3600
"""After it has ended: until then a second order under its op_key starts nothing."""
LOG_LINES = 2_000
TAIL_CHARACTERS = 16 * 1024
_BY_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")
_SIGNALLED = 128


class KubernetesJobs:
    """A JobRunner for one machine. `node` is its name, `uid` the cluster's own identity of it."""

    host = ""
    lane = ""

    def __init__(
        self, client: KubernetesClient, settings: KubernetesSettings, *, node: str, uid: str
    ) -> None:
        self._client = client
        self._settings = settings
        self._node = node
        self._uid = uid

    def start(self, spec: JobSpec) -> None:
        """Raises OperationUnsupported, ClusterUnreachable."""
        document = self.document(spec)
        with translated_errors(), granted(self._client, self._settings, Feature.JOBS):
            try:
                self._client.create(document)
            except AlreadyExists:
                found = self._client.get(self._ref(spec.name))
                if (found["metadata"].get("annotations") or {}).get(OP_KEY) != spec.op_key:
                    raise OperationUnsupported(
                        f"There is a Job {spec.name} that is somebody else's."
                    ) from None
            except InvalidObject as error:
                raise OperationUnsupported(f"The cluster does not take the Job: {error}") from None

    def observe(self, name: str) -> JobObservation:
        with answering():
            try:
                job = self._client.get(self._ref(name))
            except NotFound:
                return JobObservation(JobState.GONE, why="There is no such job.")
            pod = self._pod_of(job)
            return self._observed(job, pod)

    def log(self, name: str, *, lines: int) -> str:
        with answering():
            try:
                pod = self._pod_of(self._client.get(self._ref(name)))
                if pod is None:
                    return ""
                ref = Ref(PODS, pod["metadata"]["name"], self._namespace)
                return self._client.logs(ref, container=CONTAINER, lines=lines)
            except (NotFound, InvalidObject):
                # Its container has not begun.
                return ""

    def stop(self, name: str) -> None:
        """Suspended: its pod is deleted with its grace time, and it makes no other one."""
        with answering():
            try:
                job = self._client.get(self._ref(name))
                if _condition(job, "Complete") or _condition(job, "Failed"):
                    return
                stopped = {"metadata": {"annotations": {STOPPED: "true"}}, "spec": {"suspend": True}}
                self._client.patch(self._ref(name), stopped)
            except NotFound:
                return

    def remove(self, name: str) -> None:
        with answering():
            try:
                if not self.observe(name).is_live:
                    self._client.delete(self._ref(name))
            except NotFound:
                return

    def names(self, owner: str) -> list[str]:
        with answering():
            found = self._client.list(JOBS, namespace=self._namespace, labels=f"{OWNER}={owner}").items
        return sorted(one["metadata"]["name"] for one in found)

    @property
    def _namespace(self) -> str:
        return self._settings.jobs_namespace or self._settings.namespace

    def _ref(self, name: str) -> Ref:
        return Ref(JOBS, name, self._namespace)

    def _pod_of(self, job: Object) -> Object | None:
        """Return its newest pod; of several that work at once, the first that failed, or else rank 0."""
        labels = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
        found = self._client.list(PODS, namespace=self._namespace, labels=labels).items
        if job["spec"].get("completionMode") == "Indexed" and found:
            failed = [pod for pod in found if _terminated(pod).get("exitCode")]
            return (
                min(failed, key=lambda pod: str(_terminated(pod).get("finishedAt")))
                if failed
                else min(found, key=_rank)
            )
        return max(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)

    def _observed(self, job: Object, pod: Object | None) -> JobObservation:
        host = self._node
        if _condition(job, "Complete"):
            log = self._log(pod)
            ended = _moment((job.get("status") or {}).get("completionTime"))
            tail = log[-TAIL_CHARACTERS:]
            return JobObservation(
                JobState.SUCCEEDED, Ending.COMPLETED, 0,
                result=result_of(log), log_tail=tail, host=host, ended_at=ended,
            )  # fmt: skip
        failure = _condition(job, "Failed")
        is_stopped = STOPPED in (job["metadata"].get("annotations") or {})
        if failure is None and is_stopped and (pod is None or "deletionTimestamp" not in pod["metadata"]):
            return JobObservation(
                JobState.FAILED, Ending.STOPPED, why="It was stopped.", log_tail="", host=host
            )
        if failure is None:
            is_running = pod is not None and (pod.get("status") or {}).get("phase") == "Running"
            state = JobState.RUNNING if is_running else JobState.WAITING
            return JobObservation(state, why="" if is_running else _why_waiting(pod), host=host)
        log = self._log(pod)
        terminated = _terminated(pod)
        ending, why = ending_of(failure, terminated)
        code = terminated.get("exitCode")
        return JobObservation(
            JobState.FAILED, ending, code,
            signal=code - _SIGNALLED if code is not None and code > _SIGNALLED else None,
            why=why, result=result_of(log), log_tail=log[-TAIL_CHARACTERS:], host=host,
            ended_at=_moment(terminated.get("finishedAt") or failure.get("lastTransitionTime")),
        )  # fmt: skip

    def _log(self, pod: Object | None) -> str:
        if pod is None:
            return ""
        ref = Ref(PODS, pod["metadata"]["name"], self._namespace)
        try:
            return self._client.logs(ref, container=CONTAINER, lines=LOG_LINES)
        except KubeError:
            # Its machine may be restarting: the message that it left with the kubelet is in the API.
            return str(_terminated(pod).get("message", ""))

    def document(self, spec: JobSpec) -> Object:
        """Return the Job as it is created. Raises OperationUnsupported for what none can be."""
        image = spec.container.image or self._settings.jobs_image
        if not _BY_DIGEST.fullmatch(image):
            raise OperationUnsupported(
                "Jobs on machines need an image by digest, repository@sha256:...: set jobs_image in the "
                "settings of the cluster."
            )
        if spec.stdin:
            raise OperationUnsupported("Jobs on machines of Kubernetes clusters have no standard input.")
        labels = {MANAGED_BY: "slipway", OWNER: spec.owner, MACHINE: self._uid}
        wanted: Object = {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": LIVES_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": self._pod(spec, image)},
        }
        if spec.limits.wall_seconds:
            wanted["activeDeadlineSeconds"] = math.ceil(spec.limits.wall_seconds)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": spec.name,
                "namespace": self._namespace,
                "labels": labels,
                "annotations": {OP_KEY: spec.op_key},
            },
            "spec": wanted,
        }

    def _pod(self, spec: JobSpec, image: str) -> Object:
        container = spec.container
        pod: Object = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            **on_machines([self._node]),
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": CONTAINER,
                    "image": image,
                    "command": [part.replace("$(", "$$(") for part in spec.argv],
                    "env": [
                        {"name": "SLIPWAY_JOB_DIR", "value": "/job"},
                        {"name": "NODE_NAME", "value": self._node},
                    ],
                    "resources": _resources(spec),
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": _security(container),
                    "volumeMounts": [
                        {"name": "job", "mountPath": "/job"},
                        {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - of the pod
                    ],
                }
            ],
            "volumes": [
                {"name": "job", "emptyDir": {}},
                {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            ],
        }
        for number, path in enumerate(container.directories):
            volume = {"name": f"directory-{number}", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
            pod["volumes"].append(volume)
            pod["containers"][0]["volumeMounts"].append({"name": volume["name"], "mountPath": path})
        if container.is_privileged:
            # All of the machine's processes and devices: what repairs it must reach them.
            pod |= {"hostPID": True}
            pod["containers"][0]["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
        if self._settings.runtime_class:
            pod["runtimeClassName"] = self._settings.runtime_class
        if self._settings.image_pull_secrets:
            pod["imagePullSecrets"] = [{"name": name} for name in self._settings.image_pull_secrets]
        return pod


class answering:
    """Raises `Unavailable`, as every runner does, for whatever keeps a cluster from answering."""

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KubeError) and not isinstance(error, NotFound):
            raise Unavailable(str(error)) from None


def on_machines(names: Sequence[str]) -> Object:
    """Return the part of a pod by which it runs on one of these machines. A field can be compared with one
    value alone, so that each is a term of its own."""
    fields = [[{"key": "metadata.name", "operator": "In", "values": [name]}] for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": one} for one in fields]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def result_of(log: str) -> Mapping[str, Any] | None:
    """Return the last line of the log if it is a JSON object."""
    lines = log.strip().splitlines()
    for text in (lines[-1] if lines else "", log[log.find("{") :] if "{" in log else ""):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def _security(container: JobContainer) -> Object:
    if container.is_privileged:
        return {"privileged": True, "runAsUser": 0}
    confined: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return confined | ({"runAsUser": 0} if container.directories else {})


def _resources(spec: JobSpec) -> Object:
    limits: Object = {}
    if spec.limits.memory_bytes:
        limits["memory"] = str(spec.limits.memory_bytes)
    if spec.limits.cpus:
        limits["cpu"] = str(spec.limits.cpus)
    if spec.container.gpus:
        limits[NVIDIA] = str(spec.container.gpus)
    return {"limits": limits} if limits else {}


def _condition(job: Object, kind: str) -> Mapping[str, Any] | None:
    for one in (job.get("status") or {}).get("conditions") or ():
        if one["type"] == kind and one["status"] == "True":
            return dict(one)
    return None


def _rank(pod: Object) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    return int(annotations.get("batch.kubernetes.io/job-completion-index", "0"))


def has_failed(job: Object) -> bool:
    return _condition(job, "Failed") is not None


def _terminated(pod: Object | None) -> Mapping[str, Any]:
    for one in ((pod or {}).get("status") or {}).get("containerStatuses") or ():
        if one["name"] == CONTAINER:
            found: Mapping[str, Any] = (one.get("state") or {}).get("terminated") or {}
            return found
    return {}


def ending_of(failure: Mapping[str, Any], terminated: Mapping[str, Any]) -> tuple[Ending, str]:
    """Return why a Job and its container failed, and a sentence."""
    if failure.get("reason") == "DeadlineExceeded":
        return Ending.TIME_LIMIT, "It took longer than it may."
    if terminated.get("reason") == "OOMKilled":
        return Ending.OUT_OF_MEMORY, "It needed more memory than it may take."
    code = terminated.get("exitCode")
    if code is None:
        return Ending.KILLED, "Its pod was lost: its machine restarted, or somebody deleted it."
    if code > _SIGNALLED:
        return Ending.KILLED, f"It was ended by signal {code - _SIGNALLED}."
    return Ending.ERROR, f"It ended with status {code}."


def _why_waiting(pod: Object | None) -> str:
    if pod is None:
        return "Its pod is not made yet."
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("message") or waiting.get("reason"):
            return f"It waits: {waiting.get('message') or waiting['reason']}."
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return f"It waits for its machine: {one.get('message', '')}"
    return "It waits for its machine."


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
