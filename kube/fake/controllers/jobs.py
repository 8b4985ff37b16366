"""Jobs: pods until enough have succeeded, or too many failed; each counted once, by its finalizer."""

import json
from typing import Any

from kube.fake.controllers.controller_tools import (
    ControllerTools,
    Object,
    controller_of,
    counted,
    is_owned_by,
    reference_to,
)
from kube.fake.evicting import is_ready
from kube.fake.refusals import RequestRefused
from kube.fake.storage import copied

JOBS = "jobs.batch"
TRACKED = "batch.kubernetes.io/job-tracking"
BACK_OFF_SECONDS = 10.0
MOST_BACK_OFF_SECONDS = 600.0
CONTROLLER = "job-controller"
REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")


class JobController:
    def __init__(self) -> None:
        self._not_before: dict[str, float] = {}
        """By uid of a job: when its next pod may be made."""

    def step(self, hands: ControllerTools) -> None:
        for job in hands.all(JOBS):
            _JobSync(hands, job, self._not_before).take()
        alive = {job["metadata"]["uid"] for job in hands.look(JOBS)}
        for pod in hands.look("pods"):
            finalizers = pod["metadata"].get("finalizers") or ()
            owner = controller_of(pod)
            if TRACKED in finalizers and (owner is None or owner["uid"] not in alive):
                left = [one for one in finalizers if one != TRACKED]
                hands.change("pods", pod, metadata_finalizers=left or None)


class _JobSync:
    def __init__(self, hands: ControllerTools, job: Object, not_before: dict[str, float]) -> None:
        self.hands = hands
        self.job = job
        self.spec: Object = job["spec"]
        self.uid: str = job["metadata"]["uid"]
        self.not_before = not_before
        self.before: Object = job["status"]
        self.conditions = [dict(one) for one in self.before.get("conditions") or ()]
        near = hands.look("pods", job["metadata"]["namespace"])
        self.pods = [copied(pod) for pod in near if is_owned_by(pod, job)]
        self.succeeded = self.before.get("succeeded", 0)
        self.failed = self.before.get("failed", 0)
        self.start: str | None = self.before.get("startTime")
        self.completion: str | None = self.before.get("completionTime")

    def take(self) -> None:
        if self._has("Complete") or self._has("Failed"):
            self._expire()
            return
        if "deletionTimestamp" in self.job["metadata"]:
            # Foreground deletion waits for the pods, which nobody needs to count any more.
            for pod in self.pods:
                if TRACKED in (pod["metadata"].get("finalizers") or ()):
                    self._release(pod)
            return
        if self.spec.get("suspend"):
            self._suspend()
        else:
            self._work()
        active = self._active()
        status: Object = counted(active=len(active), succeeded=self.succeeded, failed=self.failed)
        if self.start:
            status["startTime"] = self.start
        if self.completion:
            status["completionTime"] = self.completion
        status |= {
            "terminating": sum("deletionTimestamp" in pod["metadata"] for pod in self.pods),
            "uncountedTerminatedPods": {},
            "ready": sum(map(is_ready, active)),
        }
        if self.conditions:
            status["conditions"] = self.conditions
        if status != self.before:
            self.hands.set_status(JOBS, self.job, status)

    def _has(self, kind: str) -> bool:
        return any(one["type"] == kind and one["status"] == "True" for one in self.conditions)

    def _say(self, kind: str, words: tuple[str, str], status: str = "True") -> None:
        now = self.hands.clock.stamp()
        self.conditions[:] = [one for one in self.conditions if one["type"] != kind]
        said = {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
        self.conditions.append(said | {"reason": words[0], "message": words[1]})

    def _tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.hands.events.say(CONTROLLER, self.job, reason, message, warning=warning)

    def _active(self) -> list[Object]:
        return [
            pod
            for pod in self.pods
            if "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def _suspend(self) -> None:
        if not self._has("Suspended"):
            self._say("Suspended", ("JobSuspended", "Job suspended"))
            self._tell("Suspended", "Job suspended")
        for pod in self._active():
            self._end(pod)
        self.start = None

    def _end(self, pod: Object) -> None:
        self._release(pod)
        self.hands.delete("pods", pod)
        self._tell("SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        pod["metadata"]["deletionTimestamp"] = self.hands.clock.stamp()

    def _release(self, pod: Object) -> None:
        left = [one for one in pod["metadata"].get("finalizers") or () if one != TRACKED]
        self.hands.change("pods", pod, metadata_finalizers=left or None)
        pod["metadata"]["finalizers"] = left

    def _work(self) -> None:
        if self._has("Suspended"):
            self._say("Suspended", ("JobResumed", "Job resumed"), "False")
            self._tell("Resumed", "Job resumed")
        if self.start is None:
            self.start = self.hands.clock.stamp()
        self._count()
        wanted = self.spec.get("completions")
        if self._has("SuccessCriteriaMet"):
            self._say("Complete", REACHED)
            self.completion = self.hands.clock.stamp()
            self._tell("Completed", "Job completed")
        elif self._has("FailureTarget"):
            if not any("deletionTimestamp" in pod["metadata"] for pod in self.pods):
                target = next(one for one in self.conditions if one["type"] == "FailureTarget")
                self._say("Failed", (target["reason"], target["message"]))
                self._tell(target["reason"], target["message"], warning=True)
        elif wanted is not None and self.succeeded >= wanted:
            self._say("SuccessCriteriaMet", REACHED)
        elif self.failed > self.spec.get("backoffLimit", 6):
            self._fail(LIMIT)
        elif self._is_late():
            self._fail(DEADLINE)
        else:
            self._make()

    def _count(self) -> None:
        for pod in self.pods:
            phase = pod["status"].get("phase")
            is_gone = "deletionTimestamp" in pod["metadata"]
            if TRACKED not in (pod["metadata"].get("finalizers") or ()):
                continue
            if phase == "Succeeded":
                self.succeeded += 1
            elif phase == "Failed" or is_gone:
                self.failed += 1
                wait = min(MOST_BACK_OFF_SECONDS, BACK_OFF_SECONDS * 2 ** (self.failed - 1))
                self.not_before[self.uid] = self.hands.clock.seconds + wait
            else:
                continue
            self._release(pod)

    def _is_late(self) -> bool:
        limit = self.spec.get("activeDeadlineSeconds")
        if limit is None or self.start is None:
            return False
        return self.hands.clock.seconds - self.hands.clock.seconds_of(self.start) >= int(limit)

    def _fail(self, words: tuple[str, str]) -> None:
        self._say("FailureTarget", words)
        for pod in self._active():
            self.failed += 1
            self._end(pod)

    def _make(self) -> None:
        if self.hands.clock.seconds < self.not_before.get(self.uid, 0.0):
            return
        wanted = self.spec.get("completions")
        most = self.spec.get("parallelism", 1)
        if wanted is not None:
            most = min(most, wanted - self.succeeded)
        active = self._active()
        for pod in active[max(0, most) :]:
            self._end(pod)
        for index in self._free_indexes(most - len(active)):
            try:
                self.pods.append(self.hands.create("pods", self._pod(index)))
            except RequestRefused as refused:
                self._tell("FailedCreate", f"Error creating: {refused.message}", warning=True)
                return
            self._tell("SuccessfulCreate", f"Created pod: {self.pods[-1]['metadata']['name']}")

    def _free_indexes(self, count: int) -> list[int | None]:
        if self.spec.get("completionMode") != "Indexed":
            return [None] * count
        taken = {
            int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
            for pod in self.pods
            if pod["status"].get("phase") != "Failed"
        }
        free: list[int | None] = [one for one in range(self.spec.get("completions") or 0) if one not in taken]
        return free[: max(0, count)]

    def _pod(self, index: int | None) -> Object:
        name = self.job["metadata"]["name"]
        template: Any = json.loads(json.dumps(self.spec["template"]))
        metadata = template.get("metadata") or {}
        generated = f"{name}-"
        if index is not None:
            generated = f"{name}-{index}-"
            key = "batch.kubernetes.io/job-completion-index"
            metadata["labels"] = (metadata.get("labels") or {}) | {key: str(index)}
            metadata["annotations"] = (metadata.get("annotations") or {}) | {key: str(index)}
            template["spec"]["hostname"] = f"{name}-{index}"
            path = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{key}']"}
            told = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": path}}
            for container in template["spec"]["containers"]:
                container["env"] = [*(container.get("env") or ()), told]
        place = {
            "generateName": generated,
            "namespace": self.job["metadata"]["namespace"],
            "finalizers": [TRACKED],
            "ownerReferences": [reference_to(self.job)],
        }
        return {"metadata": metadata | place, "spec": template["spec"]}

    def _expire(self) -> None:
        limit = self.spec.get("ttlSecondsAfterFinished")
        if limit is None or "deletionTimestamp" in self.job["metadata"]:
            return
        ended = max(
            self.hands.clock.seconds_of(one["lastTransitionTime"])
            for one in self.conditions
            if one["type"] in ("Complete", "Failed")
        )
        if self.hands.clock.seconds >= ended + limit:
            self.hands.delete(JOBS, self.job, propagationPolicy="Foreground")
