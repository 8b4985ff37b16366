"""Workloads as Jobs of the API: one for each, suspended by `spec.suspend` and resumed on another machine.

One over several machines is an Indexed Job with as many pods, no two of which stand on one machine; a
headless Service gives them addresses. While a Job is suspended its node affinity may be changed. Which pod
goes where is the scheduler's matter: a Job says only which machines have the cards. Where Kueue admits it,
that says it, and suspends and resumes the Job. Checkpoints are asked for as drains do it, by an annotation.
"""

from datetime import datetime
from typing import Any

from clusters.backends.kubernetes.errors import granted, translated_errors
from clusters.backends.kubernetes.jobs import TAIL_CHARACTERS, KubernetesJobs, answering, has_failed
from clusters.backends.kubernetes.kueue import (
    ONE_MACHINE,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    put_priority,
    why_queued,
)
from clusters.backends.kubernetes.pods import CHECKPOINT
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.standing import CHECKPOINT_ASKED, CHECKPOINT_DONE, pod_of
from clusters.backends.node_operations import OperationUnsupported
from clusters.backends.workloads import ObservedWorkload, WorkloadSpec
from common.jobs.spec import Ending, JobContainer, JobSpec, JobState
from kube.base import KubernetesClient, Object, Propagation
from kube.errors import AlreadyExists, InvalidObject, NotFound
from kube.resources import DISRUPTION_BUDGETS, JOBS, PODS, Ref

RUN = "slipway.io/workload-run"
"""Annotation of the Job: the run that it was last resumed for."""
HOSTNAME = "kubernetes.io/hostname"
CHECKPOINTS = "/checkpoints"
PARTS = "-parts"
"""After the Job's name: the Service of one over several machines."""


class KubernetesWorkloads:
    """A WorkloadRunner."""

    def __init__(self, client: KubernetesClient, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._jobs = KubernetesJobs(client, settings, node="", uid="")

    def start(self, spec: WorkloadSpec) -> None:
        document = self._document(spec)
        with translated_errors(), granted(self._client, self._settings, Feature.JOBS):
            if spec.queue:
                priority = put_priority(self._client, spec.priority)
                marks = {QUEUE_LABEL: spec.queue, PRIORITY_LABEL: priority}
                document["metadata"]["labels"] = {**document["metadata"]["labels"], **marks}
            try:
                job = self._get(spec.name) or self._client.create(document)
            except AlreadyExists:
                job = self._client.get(self._ref(spec.name))
            except InvalidObject as error:
                raise OperationUnsupported(f"The cluster does not take the Job: {error}") from None
            if _run(job) < spec.run and has_failed(job):
                # Its last pod was lost: a Job that failed makes no other.
                self._client.delete(self._ref(spec.name), uid=job["metadata"]["uid"])
                job = self._client.create(document)
            if _run(job) < spec.run:
                if spec.machines > 1:
                    self._give_addresses(job)
                there = {"template": {"spec": _on(spec)}}
                resumed = {} if spec.queue else {"spec": {"suspend": False, **there}}
                self._change(job, {"metadata": {"annotations": {RUN: str(spec.run)}}, **resumed})

    def _give_addresses(self, job: Object) -> None:
        """Make the Service by whose name the parts find the first of them; it goes with the Job."""
        meta = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        where = {"name": meta["name"] + PARTS, "namespace": meta["namespace"], "ownerReferences": [owner]}
        labels = {"batch.kubernetes.io/job-name": meta["name"]}
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
        self._client.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": where, "spec": spec}, force=True
        )

    def ask_checkpoint(self, name: str, run: int, request: str) -> None:
        with translated_errors(), granted(self._client, self._settings, Feature.JOBS):
            job = self._get(name)
            if job is None or _run(job) != run:
                return
            for pod in self._pods(name):
                ref = Ref(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
                self._client.patch(ref, {"metadata": {"annotations": {CHECKPOINT_ASKED: request}}})

    def stop(self, name: str, run: int) -> None:
        with translated_errors(), granted(self._client, self._settings, Feature.JOBS):
            job = self._get(name)
            if job is None or _run(job) != run:
                return
            if _queue(job):
                # Suspended, Kueue would admit it again.
                uid = job["metadata"]["uid"]
                self._client.delete(self._ref(name), uid=uid, propagation=Propagation.FOREGROUND)
            elif not job["spec"].get("suspend"):
                self._change(job, {"spec": {"suspend": True}})

    def observe(self, name: str, run: int) -> ObservedWorkload:
        with answering():
            job = self._get(name)
            if job is None or _run(job) < run:
                return ObservedWorkload(state=JobState.GONE, why="There is no such run.")
            every = self._all_pods(name)
            pods = [pod for pod in every if not _has_ended(pod)]
            done = [
                value
                for pod in pods
                if (value := (pod["metadata"].get("annotations") or {}).get(CHECKPOINT_DONE))
            ]
            wanted = max(len(pods), job["spec"].get("parallelism", 1))
            at = _moment(min(done)) if done and len(done) == wanted else None
            answered = done[0] if at is not None and len(set(done)) == 1 else ""
            if job["spec"].get("suspend"):
                is_live = bool((job.get("status") or {}).get("active")) or bool(pods)
                state = JobState.RUNNING if is_live else JobState.FAILED
                if _queue(job) and not is_live:
                    words = why_queued(self._client, job)
                    return ObservedWorkload(
                        state=JobState.WAITING, is_queued=True, why=words, checkpoint_at=at
                    )
                return ObservedWorkload(
                    state=state, is_stopped=not is_live, checkpoint_at=at, answered=answered
                )
            seen = self._jobs.observe(name)
        state = seen.state
        if state is JobState.RUNNING and len(every) < job["spec"].get("parallelism", 1):
            state = JobState.WAITING
        if state is JobState.RUNNING and any(pod["status"].get("phase") == "Pending" for pod in pods):
            state = JobState.WAITING
        return ObservedWorkload(
            state=state,
            is_stopped=seen.ending is Ending.KILLED
            and (seen.exit_code is None or any(_was_disrupted(pod) for pod in every)),
            why=seen.why,
            checkpoint_at=at,
            answered=answered,
            log_tail=seen.log_tail[-TAIL_CHARACTERS:],
        )

    def log(self, name: str, run: int, *, lines: int) -> str:
        with answering():
            job = self._get(name)
            if job is None or _run(job) != run:
                return ""
            is_leaving = job["spec"].get("suspend")
            if not is_leaving and all("deletionTimestamp" in pod["metadata"] for pod in self._all_pods(name)):
                return ""  # those of the run before are still there, and its own not yet
            return self._jobs.log(name, lines=lines)

    def blocked_by(self, name: str) -> str:
        with answering():
            budgets = self._client.list(DISRUPTION_BUDGETS, namespace=self._ref(name).namespace).items
            found = [budget for pod in self._pods(name) for budget in pod_of(pod, budgets).budgets]
        return next((budget.name for budget in found if budget.allowed < 1), "")

    def _ref(self, name: str) -> Ref:
        return Ref(JOBS, name, self._settings.jobs_namespace or self._settings.namespace)

    def _get(self, name: str) -> Object | None:
        try:
            return self._client.get(self._ref(name))
        except NotFound:
            return None

    def _change(self, job: Object, patch: dict[str, Any]) -> None:
        """A write of somebody else since it was read is a conflict: the next look tries anew."""
        version = job["metadata"]["resourceVersion"]
        metadata = {**patch.get("metadata", {}), "resourceVersion": version}
        self._client.patch(self._ref(job["metadata"]["name"]), {**patch, "metadata": metadata})

    def _all_pods(self, name: str) -> list[Object]:
        labels = f"batch.kubernetes.io/job-name={name}"
        return list(self._client.list(PODS, namespace=self._ref(name).namespace, labels=labels).items)

    def _pods(self, name: str) -> list[Object]:
        return [pod for pod in self._all_pods(name) if not _has_ended(pod)]

    def _document(self, spec: WorkloadSpec) -> Object:
        """The Job of the workload, suspended. Raises OperationUnsupported."""
        container = JobContainer(image=spec.image, gpus=spec.cards)
        job = self._jobs.document(JobSpec(spec.name, spec.name, spec.argv, container=container))
        template = job["spec"]["template"]
        job["metadata"]["name"] = spec.name
        job["spec"] |= {"suspend": True}
        pod = template["spec"]
        del pod["affinity"], pod["tolerations"]
        # Which machine it will be is not known yet, nor the same for all runs.
        environment = [one for one in pod["containers"][0]["env"] if one["name"] != "NODE_NAME"]
        pod["containers"][0]["env"] = environment
        marks = dict(ONE_MACHINE) if spec.queue and spec.machines == 1 else {}
        if spec.machines > 1:
            _spread_over_machines(job, spec)
        if spec.checkpoint_seconds:
            marks[CHECKPOINT] = str(spec.checkpoint_seconds)
        if marks:
            template["metadata"]["annotations"] = marks
        if spec.claim:
            pod["volumes"].append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": spec.claim}})
            pod["containers"][0]["volumeMounts"].append({"name": "checkpoints", "mountPath": CHECKPOINTS})
            pod["containers"][0]["env"].append({"name": "SLIPWAY_CHECKPOINT_DIR", "value": CHECKPOINTS})
        return job


def _on(spec: WorkloadSpec) -> dict[str, Any]:
    """Return the part of a pod by which it runs on one of the machines of the run."""
    if spec.machines == 1:
        return {"nodeSelector": {HOSTNAME: spec.machine}}
    names = [name for name, _cards in spec.places]
    terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": names}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _spread_over_machines(job: Object, spec: WorkloadSpec) -> None:
    """Make it an Indexed Job of one pod for each machine, which ends as soon as one of them fails."""
    job["spec"] |= {
        "completionMode": "Indexed",
        "completions": spec.machines,
        "parallelism": spec.machines,
    }
    pod = job["spec"]["template"]["spec"]
    labels = {"matchLabels": {"batch.kubernetes.io/job-name": spec.name}}
    apart = [{"labelSelector": labels, "topologyKey": HOSTNAME}]
    pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    pod["subdomain"] = spec.name + PARTS
    rank = {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    pod["containers"][0]["env"] += [
        {"name": "SLIPWAY_RANK", "valueFrom": {"fieldRef": rank}},
        {"name": "SLIPWAY_MACHINES", "value": str(spec.machines)},
        {"name": "SLIPWAY_LEADER", "value": f"{spec.name}-0.{spec.name}{PARTS}"},
    ]


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _was_disrupted(pod: Object) -> bool:
    """Whether the cluster, and not its program, ended it: eviction, preemption, a machine that is lost."""
    status = pod.get("status") or {}
    marked = any(one["type"] == "DisruptionTarget" for one in status.get("conditions") or ())
    return marked or status.get("reason") == "Evicted"


def _queue(job: Object) -> str:
    return str((job["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))


def _run(job: Object) -> int:
    return int((job["metadata"].get("annotations") or {}).get(RUN, "0"))


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
