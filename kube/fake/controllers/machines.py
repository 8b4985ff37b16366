"""Scheduler and kubelets: where pods stand, and what becomes of them there."""

from collections.abc import Callable
from typing import Any

from kube.fake.controllers.hands import Hands, Object, set_condition
from kube.fake.defaults import quantity
from kube.fake.writing import By

BEHAVIOUR = "fake.slipway.io/behaviour"
START_SECONDS = 0.75
END_SECONDS = 0.75
RUN_SECONDS = 1.0
"""For which a pod of the behaviour `succeed` or `fail:N` works."""
BY_KUBELET = By("kubelet", subresource="status")
ZONES = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/{all} nodes are available: {all} Preemption is not "
    "helpful for "
    "scheduling."
)


def behaviour_of(pod: Object) -> str:
    """`run`, `unready`, `creating`, `imagepull`, `succeed`, `fail:N`, `crashloop:N` or `oom:N`."""
    return str((pod["metadata"].get("annotations") or {}).get(BEHAVIOUR, "run"))


CORDONED = "node.kubernetes.io/unschedulable"


def taint_cordoned(hands: Hands) -> None:
    """The taint follows the field."""
    for node in hands.all("nodes"):
        taints = node["spec"].get("taints") or []
        left = [one for one in taints if one["key"] != CORDONED]
        is_cordoned = bool(node["spec"].get("unschedulable"))
        if is_cordoned == (len(left) != len(taints)):
            continue
        if is_cordoned:
            left.append({"key": CORDONED, "effect": "NoSchedule", "timeAdded": hands.clock.stamp()})
        hands.change("nodes", node, spec_taints=left or None)


def schedule(hands: Hands) -> None:
    nodes = hands.all("nodes")
    pods = hands.all("pods")
    for pod in pods:
        spec = pod["spec"]
        if spec.get("nodeName") or spec.get("schedulerName") != "default-scheduler":
            continue
        if "deletionTimestamp" in pod["metadata"]:
            continue
        reasons = {node["metadata"]["name"]: _why_not(pod, node, pods) for node in nodes}
        free = [node for node in nodes if not reasons[node["metadata"]["name"]]]
        if free:
            chosen = min(free, key=lambda node: (_count(pods, node), node["metadata"]["name"]))
            _bind(hands, pod, chosen)
            spec["nodeName"] = chosen["metadata"]["name"]
        elif nodes:
            _say_why_not(hands, pod, list(reasons.values()))


def _count(pods: list[Object], node: Object) -> int:
    return sum(pod["spec"].get("nodeName") == node["metadata"]["name"] for pod in pods)


def _why_not(pod: Object, node: Object, pods: list[Object]) -> str:
    spec, name = pod["spec"], node["metadata"]["name"]
    labels = node["metadata"].get("labels") or {}
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(spec, taint):
            return "node(s) had untolerated taint(s)"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    room = node["status"].get("allocatable") or {}
    others = [
        one
        for one in pods
        if one["spec"].get("nodeName") == name and one["status"].get("phase") not in ("Succeeded", "Failed")
    ]
    for resource, wanted in _requests(pod).items():
        used = sum((_requests(one).get(resource, 0) for one in others), start=quantity(0) or 0)
        if wanted + used > (quantity(room.get(resource, 0)) or 0):
            return f"Insufficient {resource}"
    return ""


def tolerates(spec: Object, taint: Object) -> bool:
    for one in spec.get("tolerations") or ():
        if one.get("effect") not in (None, taint["effect"]):
            continue
        if one.get("key") not in (None, taint["key"]):
            continue
        if one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""):
            return True
    return False


def _requests(pod: Object) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for container in pod["spec"].get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, 0) + (quantity(value) or 0)
    return total


def _bind(hands: Hands, pod: Object, node: Object) -> None:
    labels = node["metadata"].get("labels") or {}
    now = hands.clock.stamp()

    def change(item: Object) -> Object:
        item["spec"]["nodeName"] = node["metadata"]["name"]
        found = {key: labels[key] for key in ZONES if key in labels}
        if found:
            item["metadata"]["labels"] = (item["metadata"].get("labels") or {}) | found
        conditions = item["status"].setdefault("conditions", [])
        conditions[:] = [one for one in conditions if one["type"] != "PodScheduled"]
        conditions.append(
            {
                "type": "PodScheduled",
                "observedGeneration": 1,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": now,
            }
        )
        return item

    pods = hands.server.kind_of("pods")
    current = hands.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    if current is not None:
        hands.server.storage.put(pods, change(current))


def _say_why_not(hands: Hands, pod: Object, reasons: list[str]) -> None:
    counts = sorted(f"{reasons.count(one)} {one}" for one in set(reasons))
    whole = NOT_HELPFUL.format(all=len(reasons))
    message = f"0/{len(reasons)} nodes are available: {', '.join(counts)}. {whole}"
    conditions = [dict(one) for one in pod["status"].get("conditions") or ()]
    before = str(conditions)
    set_condition(
        conditions, "PodScheduled", "False", hands.clock.stamp(), reason="Unschedulable", message=message
    )
    if str(conditions) != before:
        hands.set_status("pods", pod, pod["status"] | {"conditions": conditions})


class Kubelets:
    """Of all nodes but those in `silent`, whose pods stay as they are."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.behaviour_of: Callable[[Object], str] = behaviour_of
        self._seen: dict[str, float] = {}

    def step(self, hands: Hands) -> None:
        names = {node["metadata"]["name"] for node in hands.all("nodes")} - self.silent
        for pod in hands.all("pods"):
            if pod["spec"].get("nodeName") not in names:
                continue
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                self._end(hands, pod)
                continue
            age = hands.clock.seconds - self._seen.setdefault(uid, hands.clock.seconds)
            status = self._status(hands, pod, age)
            if status is not None and _differs(status, pod["status"]):
                hands.edit("pods", pod, _setting(status), BY_KUBELET)

    def _end(self, hands: Hands, pod: Object) -> None:
        metadata = pod["metadata"]
        grace = metadata.get("deletionGracePeriodSeconds", 0)
        asked = hands.clock.seconds_of(metadata["deletionTimestamp"]) - grace
        begun = self._seen.setdefault(f"{metadata['uid']} ends", max(asked, hands.clock.seconds))
        if hands.clock.seconds < begun + min(END_SECONDS, grace):
            return
        if pod["status"].get("phase") == "Running":
            status = pod["status"] | {"phase": "Succeeded", "observedGeneration": metadata["generation"]}
            status["conditions"] = [
                one | ({"status": "False"} if one["type"] in ("Ready", "ContainersReady") else {})
                for one in status.get("conditions") or ()
            ]
            hands.edit("pods", pod, _setting(status), BY_KUBELET)
        hands.delete("pods", pod, gracePeriodSeconds=0)

    def _status(self, hands: Hands, pod: Object, age: float) -> Object | None:
        kind, _, number = self.behaviour_of(pod).partition(":")
        phase = pod["status"].get("phase")
        if phase in ("Succeeded", "Failed") or kind == "creating" or age < START_SECONDS:
            return None
        if kind == "imagepull":
            waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
            return self._told(hands, pod, "Pending", {"waiting": waiting}, is_ready=False)
        if kind in ("succeed", "fail") and age >= START_SECONDS + RUN_SECONDS:
            code = int(number or 0) if kind == "fail" else 0
            ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
            return self._told(
                hands, pod, "Failed" if code else "Succeeded", {"terminated": ended}, is_ready=False
            )
        if kind in ("crashloop", "oom"):
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            return self._told(
                hands, pod, "Running", {"waiting": waiting}, is_ready=False, restarts=int(number or 1)
            )
        running = {"startedAt": hands.clock.stamp()}
        return self._told(hands, pod, "Running", {"running": running}, is_ready=kind != "unready")

    def _told(
        self, hands: Hands, pod: Object, phase: str, state: Object, *, is_ready: bool, restarts: int = 0
    ) -> Object:
        conditions = [dict(one) for one in pod["status"].get("conditions") or ()]
        for kind in ("PodReadyToStartContainers", "Initialized"):
            set_condition(conditions, kind, "True", hands.clock.stamp())
        for kind in ("Ready", "ContainersReady"):
            set_condition(conditions, kind, "True" if is_ready else "False", hands.clock.stamp())
        containers = [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": "",
                "ready": is_ready,
                "restartCount": restarts,
                "state": state,
                "lastState": {},
            }
            for one in pod["spec"]["containers"]
        ]
        before: Object = pod["status"]
        return before | {
            "phase": phase,
            "observedGeneration": pod["metadata"].get("generation", 1),
            "conditions": conditions,
            "containerStatuses": containers,
        }


def _setting(status: Object) -> Callable[[Object], Object]:
    def change(item: Object) -> Object:
        item["status"] = status
        return item

    return change


def _differs(new: Object, old: Object) -> bool:
    """But for the time since which a container runs."""

    def plain(status: Object) -> tuple[Any, ...]:
        states = [
            (one["ready"], one["restartCount"], list(one["state"]))
            for one in status.get("containerStatuses", ())
        ]
        conditions = [(one["type"], one["status"]) for one in status.get("conditions", ())]
        return (status.get("phase"), states, conditions)

    return plain(new) != plain(old)
