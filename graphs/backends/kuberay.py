"""Graphs on Ray in a Kubernetes cluster, by KubeRay's objects: submitted, looked at, explained, removed.

KubeRay runs the Ray cluster, Ray moves data and restarts processes; nothing here waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from graphs.backends.ray_objects import GRAPH_LABEL, Object, RayOrder, ray_job, ray_service
from graphs.errors import RayOrderInvalid
from kube.base import KubernetesClient
from kube.errors import NotFound, NotServed
from kube.resources import LOCAL_QUEUES, RAY_JOBS, RAY_SERVICES, WORKLOADS, Ref


class RayState(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"


@dataclass(frozen=True)
class RayObservation:
    """`reason`: why it is in that state, in words; empty where the state says all."""

    state: RayState
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in (RayState.DONE, RayState.FAILED, RayState.GONE)


FAILURES: Mapping[str, str] = {
    "AppFailed": gettext_noop("The graph's run ended with an error"),
    "DeadlineExceeded": gettext_noop("It took longer than it may"),
    "JobDeploymentStatusTransitionGracePeriodExceeded": gettext_noop(
        "Ray's job ended, and KubeRay did not see it in time"
    ),
    "JobStatusCheckTimeoutExceeded": gettext_noop("KubeRay could not ask Ray for the job's state any more"),
    "PreRunningDeadlineExceeded": gettext_noop("Its Ray cluster was not ready in time"),
    "SubmissionFailed": gettext_noop("The job could not be handed to Ray"),
    "ValidationFailed": gettext_noop("KubeRay refuses the object"),
}
"""By KubeRay's reason."""


class KubeRay:
    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    def submit(self, order: RayOrder) -> None:
        """Create the RayJob or RayService; one of the same name with the same spec counts as it. Raises
        RayOrderInvalid, KubeError."""
        kind = RAY_JOBS if order.is_job else RAY_SERVICES
        if not self._client.serves(kind):
            raise RayOrderInvalid(
                _(
                    "The cluster has no %(kind)s: KubeRay is not installed there. Install its operator, or "
                    "give the address of a Ray that runs."
                )
                % {"kind": kind}
            )
        if order.queue:
            self._check_queue(order.queue)
        self._client.apply(ray_job(order) if order.is_job else ray_service(order))

    def _check_queue(self, name: str) -> None:
        if not self._client.serves(LOCAL_QUEUES):
            raise RayOrderInvalid(
                _("The cluster has no queues: Kueue is not installed there. Leave the queue out.")
            )
        try:
            self._client.get(Ref(LOCAL_QUEUES, name, self._namespace))
        except NotFound:
            queues = [one["metadata"]["name"] for one in self._queues()]
            said = (
                _("The namespace %(namespace)s has no queue %(name)s; there are %(queues)s.")
                if queues
                else _("The namespace %(namespace)s has no queue %(name)s; it has none.")
            )
            told = {"namespace": self._namespace, "name": name, "queues": ", ".join(queues)}
            raise RayOrderInvalid(said % told) from None

    def _queues(self) -> list[Object]:
        return [*self._client.list(LOCAL_QUEUES, namespace=self._namespace).items]

    def observe(self, name: str, *, is_job: bool) -> RayObservation:
        """Raises KubeError."""
        try:
            found = self._client.get(Ref(RAY_JOBS if is_job else RAY_SERVICES, name, self._namespace))
        except (NotFound, NotServed):
            return RayObservation(RayState.GONE, _("It was removed from the cluster."))
        return self._job(found) if is_job else self._service(found)

    def abort(self, name: str, *, is_job: bool) -> None:
        """Remove it with its Ray cluster. What is not there any more counts as removed. Raises KubeError."""
        try:
            self._client.delete(Ref(RAY_JOBS if is_job else RAY_SERVICES, name, self._namespace))
        except (NotFound, NotServed):
            return

    def running(self, graph: str) -> list[tuple[str, bool]]:
        """Name, and whether it is a job, of all that runs of a graph. Raises KubeError."""
        labels = f"{GRAPH_LABEL}={graph[:63]}"
        return [
            (one["metadata"]["name"], kind is RAY_JOBS)
            for kind in (RAY_JOBS, RAY_SERVICES)
            if self._client.serves(kind)
            for one in self._client.list(kind, namespace=self._namespace, labels=labels).items
        ]

    # What their status means

    def _job(self, found: Object) -> RayObservation:
        status: Mapping[str, Any] = found.get("status") or {}
        job, message = str(status.get("jobStatus") or ""), str(status.get("message") or "")
        match status.get("jobDeploymentStatus") or "":
            case "Complete":
                if job in ("SUCCEEDED", ""):
                    return RayObservation(RayState.DONE)
                return RayObservation(
                    RayState.FAILED, _sentence(_("Ray's job is %(state)s") % {"state": job.lower()}, message)
                )
            case "Failed" | "ValidationFailed":
                reason = str(status.get("reason") or "ValidationFailed")
                known = FAILURES.get(reason)
                words = _(known) if known else _("KubeRay says %(reason)s") % {"reason": reason}
                return RayObservation(RayState.FAILED, _sentence(words, message))
            case "Suspended" | "Suspending":
                return self._waiting(found)
            case "Running" if job == "RUNNING":
                return RayObservation(RayState.RUNNING)
            case "Running":
                return RayObservation(
                    RayState.STARTING, _("Its Ray cluster is there; the job has not begun.")
                )
            case "Retrying":
                return RayObservation(RayState.STARTING, _sentence(_("KubeRay tries it again"), message))
            case "" if (found.get("spec") or {}).get("suspend"):
                return self._waiting(found)
        return RayObservation(RayState.STARTING, _cluster_words(status.get("rayClusterStatus") or {}))

    def _service(self, found: Object) -> RayObservation:
        status: Mapping[str, Any] = found.get("status") or {}
        conditions = _conditions(status)
        ready = conditions.get("Ready", {})
        serving = status.get("activeServiceStatus") or {}
        coming = status.get("pendingServiceStatus") or {}
        failed = [
            (name, one)
            for part in (serving, coming)
            for name, one in (part.get("applicationStatuses") or {}).items()
            if one.get("status") in ("DEPLOY_FAILED", "UNHEALTHY")
        ]
        words = " ".join(_application_words(name, one) for name, one in failed)
        if ready.get("status") == "True":
            return RayObservation(RayState.RUNNING, words)
        if words:
            return RayObservation(RayState.FAILED, words)
        if ready.get("reason") in ("ValidationFailed", "InitializingTimeout"):
            is_refused = ready["reason"] == "ValidationFailed"
            first = FAILURES["ValidationFailed" if is_refused else "PreRunningDeadlineExceeded"]
            return RayObservation(RayState.FAILED, _sentence(_(first), str(ready.get("message") or "")))
        part = coming if coming.get("rayClusterName") else serving
        cluster = part.get("rayClusterStatus") or {}
        if "RayClusterSuspended" in _true(_conditions(cluster)) or "Suspended" in _true(conditions):
            return self._waiting(found)
        return RayObservation(RayState.STARTING, _cluster_words(cluster))

    def _waiting(self, found: Object) -> RayObservation:
        """Say why an object is suspended: by Kueue, until its queue has room, or by a person."""
        labels = found["metadata"].get("labels") or {}
        queue = next((value for key, value in labels.items() if key.endswith("/queue-name")), "")
        if not queue:
            return RayObservation(
                RayState.QUEUED,
                _("It is suspended in the cluster: it goes on when spec.suspend is false."),
            )
        for workload in self._client.list(WORKLOADS, namespace=self._namespace).items:
            owners = workload["metadata"].get("ownerReferences") or ()
            if not any(one.get("uid") == found["metadata"].get("uid") for one in owners):
                continue
            conditions = _conditions(workload.get("status") or {})
            if (evicted := conditions.get("Evicted", {})).get("status") == "True":
                left = _("Kueue evicted it from the queue %(queue)s") % {"queue": queue}
                words = _sentence(left, str(evicted.get("message") or ""))
                return RayObservation(RayState.QUEUED, words)
            message = str(conditions.get("QuotaReserved", {}).get("message") or "")
            waits = _("It waits in the queue %(queue)s") % {"queue": queue}
            return RayObservation(RayState.QUEUED, _sentence(waits, message))
        unseen = _("Kueue has not seen it yet; its queue is %(queue)s.") % {"queue": queue}
        return RayObservation(RayState.QUEUED, unseen)


def _application_words(name: str, application: Mapping[str, Any]) -> str:
    deployments = application.get("serveDeploymentStatuses") or {}
    unhealthy = [
        f"{task}: {one.get('message') or one['status']}"
        for task, one in deployments.items()
        if one.get("status") in ("UNHEALTHY", "DEPLOY_FAILED")
    ]
    return _sentence(
        _("Ray Serve does not serve %(name)s") % {"name": name},
        "; ".join(unhealthy) or str(application.get("message") or ""),
    )


def _cluster_words(cluster: Mapping[str, Any]) -> str:
    """Why a Ray cluster is not ready, as far as its status says."""
    conditions = _conditions(cluster)
    if (failure := conditions.get("ReplicaFailure", {})).get("status") == "True":
        return _sentence(_("Its Ray cluster cannot make a pod"), str(failure.get("message") or ""))
    if (head := conditions.get("HeadPodReady", {})).get("status") == "False":
        return _sentence(_("The head of its Ray cluster is not ready"), str(head.get("message") or ""))
    wanted, ready = cluster.get("desiredWorkerReplicas"), cluster.get("readyWorkerReplicas") or 0
    if wanted is not None and ready < wanted:
        told = {"ready": ready, "wanted": wanted}
        return _("%(ready)s of %(wanted)s pods of its Ray cluster are ready.") % told
    return _("Its Ray cluster is being made.")


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {one["type"]: one for one in status.get("conditions") or ()}


def _true(conditions: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {name for name, one in conditions.items() if one.get("status") == "True"}


def _sentence(words: str, detail: str) -> str:
    detail = " ".join(detail.split()).rstrip(".")[:600]
    return f"{words}: {detail}." if detail else f"{words}."
