"""Workers that span machines: a LeaderWorkerSet, each of whose groups is one worker of ours.

The leader serves; the pods that follow it hold their part of the model. Names, labels and events:
LeaderWorkerSet v1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clusters.backends.base import ObservedState, ObservedWorker
from clusters.backends.kubernetes.pods import worker_of
from kube.base import KubernetesClient, Object
from kube.errors import ApiForbidden
from kube.resources import EVENTS, PODS

Document = dict[str, Any]

FOLLOWS = "slipway.io/follows"
"""Label of pods that belong to a worker of this deployment and take no requests."""
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
SIZE = "leaderworkerset.sigs.k8s.io/size"
RECREATED = "RecreateGroupOnPodRestart"
"""Reason of the event by which its controller tells that a pod failed and its whole group begins anew."""
_FAILED = re.compile(r"Worker pod (\S+) failed, deleted leader pod (\S+) to recreate group (\d+)")
_SUFFIX = "-group"


def set_name(deployment: str) -> str:
    """Its controller makes a Service of the set's name, which must not be ours."""
    return f"{deployment}{_SUFFIX}"


def group_spec(*, replicas: int, size: int, leader: Document, follower: Document) -> Document:
    """`leader` and `follower`: templates of pods. A new group comes before an old one goes."""
    return {
        "replicas": replicas,
        "startupPolicy": "LeaderCreated",
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 0, "partition": 0},
        },
        "networkConfig": {"subdomainPolicy": "Shared"},
        "leaderWorkerTemplate": {
            "size": size,
            # What is left of a group has lost its part of the model.
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": leader,
            "workerTemplate": follower,
        },
    }


def is_leader(pod: Mapping[str, Any]) -> bool:
    return GROUP in (pod["metadata"].get("labels") or {})


def workers_of(
    client: KubernetesClient, deployment: str, namespace: str, leaders: Sequence[Object]
) -> list[ObservedWorker]:
    """Return one worker for each group of pods, with the state of the whole group."""
    found = client.list(PODS, namespace=namespace, labels=f"{FOLLOWS}={deployment}").items
    followers: dict[str, list[Object]] = {}
    for pod in found:
        followers.setdefault(_group(pod), []).append(pod)
    ends = _ends(client, deployment, namespace)
    return [_worker(leader, followers.get(_group(leader), []), ends) for leader in leaders]


def why_no_group(client: KubernetesClient, deployment: str, namespace: str) -> str:
    """Why there is no pod at all, as its controllers tell; empty: they say nothing."""
    name = set_name(deployment)
    told = [
        event
        for event in _events(client, namespace, f"involvedObject.name={name}")
        if event.get("type") == "Warning"
    ]
    return str(told[-1].get("message", "")) if told else ""


def _worker(leader: Object, followers: Sequence[Object], ends: Mapping[str, Sequence[str]]) -> ObservedWorker:
    worker = worker_of(leader)
    metadata = leader["metadata"]
    told = ends.get(worker.name, ())
    worker = replace(worker, restarts=worker.restarts + len(told))
    if worker.state in (ObservedState.DRAINING, ObservedState.FAILED):
        return worker
    size = int((metadata.get("annotations") or {}).get(SIZE, 1 + len(followers)))
    seen = sorted((worker_of(pod) for pod in followers), key=lambda one: one.name)
    for one in seen:
        if one.state == ObservedState.FAILED:
            return replace(worker, state=ObservedState.FAILED, reason=_of_follower(one, size))
    waiting = next((one for one in seen if one.state != ObservedState.READY), None)
    is_whole = waiting is None and len(seen) == size - 1
    if is_whole and worker.state == ObservedState.READY:
        return worker
    reason = worker.reason
    if not is_whole and worker.node:
        missing = f"{1 + len(seen)} of the {size} pods of its group are there."
        reason = _of_follower(waiting, size) if waiting else missing
    if told:
        reason = f"Its group began anew, since its pod {told[-1]} failed. {reason}"
    # Its leader may answer yet; without its other pods it will not for long.
    return replace(worker, state=ObservedState.STARTING, reason=reason)


def _of_follower(one: ObservedWorker, size: int) -> str:
    return f"Its pod {one.name}, one of {size} that work as one: {one.reason}"


def _group(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get(GROUP, ""))


def _ends(client: KubernetesClient, deployment: str, namespace: str) -> dict[str, list[str]]:
    """Return by leader the pods of its group that failed, the earliest first, for as long as events are
    kept.
    """
    found: dict[str, list[str]] = {}
    for event in _events(client, namespace, f"involvedObject.name={set_name(deployment)},reason={RECREATED}"):
        told = _FAILED.match(event.get("message", ""))
        if told:
            found.setdefault(told[2], []).extend([told[1]] * _count(event))
    return found


def _events(client: KubernetesClient, namespace: str, fields: str) -> Iterable[Object]:
    try:
        items = client.list(EVENTS, namespace=namespace, fields=fields).items
    except ApiForbidden:
        return []
    return sorted(items, key=lambda one: one.get("lastTimestamp") or one.get("eventTime") or "")


def _count(event: Object) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)
