"""The worker in a Pod of the API, and in words why it does not run."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from clusters.backends.base import ObservedState, ObservedWorker
from clusters.backends.kubernetes.scheduling import why_unschedulable

Document = Mapping[str, Any]

CONTAINER = "worker"
FILES_CONTAINER = "model-files"
"""Of the pod's own, which brings the version's files to its machine before the worker starts."""
ADAPTERS_CONTAINER = "adapters"
"""Beside the worker: brings the LoRA adapters that it is to load."""
PORT = 8000
CHECKPOINT = "slipway.io/checkpoint"
"""Annotation of a pod that wants to keep its work before it is evicted: seconds that this may take, or
`sigterm`."""
FAILED_AFTER_CRASHES = 3
"""As many ends in a row before it is given up; the kubelet goes on trying."""
_NEVER = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""A container that waits for one of these needs a person."""
_PULLS = frozenset({"ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "ImageInspectError"})
_NO_RIGHT = (
    "unauthorized",
    "denied",
    "no basic auth credentials",
    "authentication required",
    "403 forbidden",
)


def worker_of(pod: Document) -> ObservedWorker:
    """Its id is the pod's name: a pod is never started again under it, and its logs are asked for by it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    state, reason = _standing(metadata, status)
    container = _container(status)
    return ObservedWorker(
        id=metadata["name"],
        name=metadata["name"],
        node=(pod.get("spec") or {}).get("nodeName", ""),
        address=status.get("podIP", ""),
        port=http_port(pod),
        pid=None,
        state=state,
        since=_since(metadata, status, container),
        restarts=container.get("restartCount", 0),
        reason=reason,
        pull_failure=pull_failure_of(pod, CONTAINER),
    )


def pull_failure_of(pod: Document, container: str) -> str:
    """Why the image of this container cannot be pulled; empty: nothing says so."""
    status = dict(_containers(pod.get("status") or {})).get(container, {})
    waiting = (status.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in _PULLS:
        return ""
    return _why_no_image(status.get("image", ""), waiting.get("message", ""))


def http_port(pod: Document) -> int:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if container["name"] == CONTAINER and port.get("name") == "http":
                return int(port["containerPort"])
    return PORT


def why_not_done(pod: Document) -> str:
    """Return why a pod that ends when its work is done has not; empty: it is done, or nothing is known."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return ""
    return _standing(pod["metadata"], status)[1]


def is_left_over(pod: Document) -> bool:
    """Whether its worker has another pod by now: evicted or preempted pods stay to be read."""
    status = pod.get("status") or {}
    left = ("Evicted", "Preempting", "NodeShutdown")
    return status.get("phase") == "Failed" and status.get("reason") in left


def fetches_files(pod: Document) -> bool:
    """Whether it has been placed, and its files are being brought to its machine just now."""
    statuses = dict(_containers(pod.get("status") or {}))
    is_leaving = bool(pod["metadata"].get("deletionTimestamp"))
    return not is_leaving and "running" in (statuses.get(FILES_CONTAINER, {}).get("state") or {})


def _standing(metadata: Document, status: Document) -> tuple[ObservedState, str]:
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if metadata.get("deletionTimestamp"):
        return ObservedState.DRAINING, _why_disrupted(conditions)
    if status.get("phase") in ("Failed", "Succeeded"):
        return ObservedState.FAILED, _why_ended(status)
    if _holds(conditions, "Ready"):
        return ObservedState.READY, ""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return ObservedState.STARTING, _why_unplaced(scheduled)
    for name, container in _containers(status):
        if found := _trouble(name, container):
            return found
    if _holds(conditions, "ContainersReady"):
        # The kubelet is silent: it would say Ready otherwise.
        return ObservedState.STARTING, conditions.get("Ready", {}).get(
            "message"
        ) or "Its machine is not ready."
    return ObservedState.STARTING, _what_it_waits_for(status)


def _holds(conditions: Mapping[str, Document], name: str) -> bool:
    return conditions.get(name, {}).get("status") == "True"


def _containers(status: Document) -> Sequence[tuple[str, Document]]:
    """Return the containers in the order in which they run."""
    kept = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [(one["name"], one) for one in kept]


def _container(status: Document) -> Document:
    return next((one for name, one in _containers(status) if name == CONTAINER), {})


def _why_unplaced(condition: Document) -> str:
    if condition.get("reason") == "SchedulingGated":
        return "A scheduling gate of the cluster holds it back."
    return why_unschedulable(condition.get("message", ""))


def _trouble(name: str, container: Document) -> tuple[ObservedState, str] | None:
    """Return the trouble of one container; None when there is none."""
    whose = "It" if name == CONTAINER else f"Its container {name}"
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    why, message = waiting.get("reason", ""), waiting.get("message", "")
    if why in _PULLS:
        return ObservedState.FAILED, _why_no_image(container.get("image", ""), message)
    if why in _NEVER:
        return ObservedState.FAILED, f"{whose} cannot be started: {_short(message or why)}"
    ended = (container.get("lastState") or {}).get("terminated") or {}
    now_ended = state.get("terminated") or {}
    if now_ended and now_ended.get("exitCode") != 0:
        ended = now_ended
    crashes = container.get("restartCount", 0) + bool(now_ended)
    if ended and not container.get("started") and ended.get("exitCode", 0) != 0:
        given_up = why == "CrashLoopBackOff" and crashes >= FAILED_AFTER_CRASHES
        state_now = ObservedState.FAILED if given_up else ObservedState.STARTING
        return state_now, f"{_how_it_ended(whose, ended)} It was started {crashes + 1} times."
    return None


def _how_it_ended(whose: str, ended: Document) -> str:
    code, why = ended.get("exitCode"), ended.get("reason", "")
    said = _short(ended.get("message", ""))
    if why == "OOMKilled":
        return f"{whose} was killed for using more memory than it may (OOMKilled). Give it more memory."
    how = f"signal {code - 128}" if isinstance(code, int) and code > 128 else f"exit status {code}"
    return f"{whose} ended with {how}{f': {said}' if said else '.'}"


def _why_no_image(image: str, message: str) -> str:
    cause = message.rpartition("desc = ")[2] or message
    # Runtimes name the image up to three times before they come to the point.
    cause = _short(cause.replace(f' "{image}"', "").replace(f"{image}: ", ""))
    sentence = f"Its image {image} cannot be pulled{f': {cause}' if cause else '.'}"
    if any(word in message.lower() for word in _NO_RIGHT):
        return f"{sentence.rstrip('.')}. Name a pull secret of its namespace that may read the registry."
    return sentence


def _why_ended(status: Document) -> str:
    why = status.get("reason", "")
    if why == "Evicted":
        return f"Its machine evicted it: {_short(status.get('message', ''))}"
    for name, container in _containers(status):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended and (name == CONTAINER or ended.get("exitCode") != 0):
            return _how_it_ended("It" if name == CONTAINER else f"Its container {name}", ended)
    return _short(status.get("message", "")) or f"Its pod ended ({why or status.get('phase')})."


def _why_disrupted(conditions: Mapping[str, Document]) -> str:
    condition = conditions.get("DisruptionTarget", {})
    if condition.get("status") != "True":
        return ""
    words = {
        "PreemptionByScheduler": "A pod of higher priority takes its place.",
        "EvictionByEvictionAPI": "It was evicted, as when a machine is drained.",
        "DeletionByTaintManager": "Its machine got a taint that it does not tolerate.",
        "DeletionByPodGC": "Its machine is gone.",
        "TerminationByKubelet": "Its machine ends it for want of resources, or to shut down.",
    }
    return words.get(condition.get("reason", ""), _short(condition.get("message", "")))


def _what_it_waits_for(status: Document) -> str:
    for name, container in _containers(status):
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in ("ContainerCreating", "PodInitializing"):
            continue
        if "running" in state and name == FILES_CONTAINER:
            return "Its model files are being fetched to its machine."
        if "running" in state and name != CONTAINER:
            return f"Its container {name} prepares it."
        if "running" in state:
            return "It loads its model, or does not answer yet."
        if waiting:
            return _short(f"{waiting.get('reason', '')} {waiting.get('message', '')}")
    return "Its container is being made: volumes, network and image come first."


def _since(metadata: Document, status: Document, container: Document) -> datetime:
    state = container.get("state") or {}
    told = (state.get("running") or {}).get("startedAt") or (state.get("terminated") or {}).get("finishedAt")
    return moment(told or status.get("startTime") or metadata.get("creationTimestamp"))


def moment(text: str | None) -> datetime:
    """`2026-11-22T08:52:45Z`, as the API writes moments; now where it says none."""
    return datetime.fromisoformat(text) if text else datetime.now(UTC)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 400 else f"{text[:399]}…"
