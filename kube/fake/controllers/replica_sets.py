"""ReplicaSets: as many pods as are wanted, and which go first."""

import json

from kube.fake.controllers.controller_tools import (
    ControllerTools,
    Object,
    controller_of,
    counted,
    is_active,
    is_owned_by,
    reference_to,
    set_condition,
)
from kube.fake.evicting import is_ready
from kube.fake.refusals import RequestRefused
from kube.fake.selectors import matches_labels

REPLICA_SETS = "replicasets.apps"
CONTROLLER = "replicaset-controller"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FIRST_BACK_OFF_SECONDS = 0.25
MOST_BACK_OFF_SECONDS = 1000.0


class ReplicaSets:
    """Retries failed creations at every turn, and reports them ever less often."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, float]] = {}
        """By uid: when a failure is told again, and the wait after that."""

    def step(self, hands: ControllerTools) -> None:
        for one in hands.look(REPLICA_SETS):
            failure = _replica_set(hands, one)
            if failure:
                self._tell(hands, one, failure)
            else:
                self._told.pop(one["metadata"]["uid"], None)

    def _tell(self, hands: ControllerTools, one: Object, failure: str) -> None:
        uid, now = one["metadata"]["uid"], hands.clock.seconds
        due, wait = self._told.get(uid, (now, FIRST_BACK_OFF_SECONDS))
        if now >= due:
            self._told[uid] = (now + wait, min(MOST_BACK_OFF_SECONDS, 2 * wait))
            hands.events.say(CONTROLLER, one, "FailedCreate", f"Error creating: {failure}", warning=True)


def _replica_set(hands: ControllerTools, one: Object) -> str:
    """Why one of its pods cannot be made; empty: it could."""
    namespace = one["metadata"]["namespace"]
    mine = _claimed(hands, one, hands.look("pods", namespace))
    active = [pod for pod in mine if is_active(pod)]
    failure = ""
    if "deletionTimestamp" not in one["metadata"]:
        missing = one["spec"].get("replicas", 0) - len(active)
        for _ in range(missing):
            try:
                active.append(hands.create("pods", pod_of(one)))
            except RequestRefused as refused:
                failure = refused.message
                break
            said = f"Created pod: {active[-1]['metadata']['name']}"
            hands.events.say(CONTROLLER, one, "SuccessfulCreate", said)
        for pod in _first_to_go(active, -missing):
            hands.delete("pods", pod)
            said = f"Deleted pod: {pod['metadata']['name']}"
            hands.events.say(CONTROLLER, one, "SuccessfulDelete", said)
            active.remove(pod)
            mine = [each for each in mine if each is not pod] + [pod | {"_goes": True}]
    ready = sum(map(is_ready, active))
    going = sum("deletionTimestamp" in pod["metadata"] or "_goes" in pod for pod in mine)
    status: Object = {"replicas": len(active)} | counted(
        fullyLabeledReplicas=len(active), readyReplicas=ready, availableReplicas=ready
    )
    status |= {"terminatingReplicas": going, "observedGeneration": one["metadata"]["generation"]}
    if failure:
        conditions = [dict(each) for each in one["status"].get("conditions") or ()]
        stamp = hands.clock.stamp()
        set_condition(conditions, "ReplicaFailure", "True", stamp, reason="FailedCreate", message=failure)
        status["conditions"] = conditions
    if status != one["status"]:
        hands.set_status(REPLICA_SETS, one, status)
    return failure


def _claimed(hands: ControllerTools, one: Object, pods: list[Object]) -> list[Object]:
    """Return the pods that it owns and selects; pods with changed labels are released, and orphans
    adopted.
    """
    found = []
    may_adopt = "deletionTimestamp" not in one["metadata"]
    for pod in pods:
        is_selected = matches_labels(one["spec"]["selector"], pod["metadata"].get("labels") or {})
        if is_owned_by(pod, one):
            if is_selected or not may_adopt:
                found.append(pod)
                continue
            uid = one["metadata"]["uid"]
            left = [each for each in pod["metadata"]["ownerReferences"] if each["uid"] != uid]
            hands.change("pods", pod, metadata_ownerReferences=left or None)
        elif may_adopt and is_selected and controller_of(pod) is None and is_active(pod):
            owners = [*(pod["metadata"].get("ownerReferences") or ()), reference_to(one)]
            found.append(hands.change("pods", pod, metadata_ownerReferences=owners))
    return found


def pod_of(owner: Object) -> Object:
    """A pod of its template, without a name of its own yet."""
    template = json.loads(json.dumps(owner["spec"]["template"]))
    metadata = template.get("metadata") or {}
    return {
        "metadata": metadata
        | {
            "generateName": f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [reference_to(owner)],
        },
        "spec": template["spec"],
    }


def _first_to_go(pods: list[Object], count: int) -> list[Object]:
    """Return pods in the order of deletion: without a node, not ready, by deletion cost, on nodes with more
    of them, the youngest.
    """
    if count <= 0:
        return []
    nodes = [pod["spec"].get("nodeName", "") for pod in pods]

    def rank(pod: Object) -> tuple[bool, bool, bool, int, int]:
        node = pod["spec"].get("nodeName", "")
        is_pending = pod["status"].get("phase") == "Pending"
        cost = int((pod["metadata"].get("annotations") or {}).get(DELETION_COST, 0))
        return (bool(node), not is_pending, is_ready(pod), cost, -nodes.count(node))

    youngest = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    return sorted(youngest, key=rank)[:count]
