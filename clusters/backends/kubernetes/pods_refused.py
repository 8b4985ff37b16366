"""Deployments whose pods a cluster refuses to make."""

from clusters.backends.base import (
    CannotRun,
)
from kube.base import Object


def check_pods_can_be_made(before: Object | None, deployment: Object) -> None:
    """Raises CannotRun when the controller said of what is written there that it may not make a pod.

    A Deployment's annotations count in its generation, and our fence is one: what was said of it before that
    holds while nothing else changes.
    """
    status = deployment.get("status") or {}
    is_same = before is not None and before["spec"] == deployment["spec"]
    said_of = before if before is not None and is_same else deployment
    if status.get("observedGeneration", 0) < said_of["metadata"].get("generation", 0):
        return
    for condition in status.get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            raise CannotRun(
                f"Its pods cannot be made: {condition.get('message', condition.get('reason', ''))}"
            )
