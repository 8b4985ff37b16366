"""The node controller: machines that fall silent, the taints of their state, and pods that must go for it.

Constants: kube-controller-manager 1.36 (`--node-monitor-grace-period`, `--node-monitor-period`,
`--node-eviction-rate`), pkg/controller/nodelifecycle, tainteviction and podgc.
"""

from dataclasses import dataclass

from kube.fake.controllers.controller_tools import BY_STATUS, ControllerTools, Object, set_condition
from kube.fake.controllers.machines import HEALTH, MachineController
from kube.fake.controllers.scheduling import ZONES, matching_toleration

GRACE_SECONDS = 50.0
MONITOR_SECONDS = 5.0
SECONDS_BETWEEN_TAINTS = 10.0
"""Of NoExecute taints in one zone."""
UNHEALTHY_SHARE = 0.55
LARGE_ZONE = 50
"""A zone of no more machines whose share of silent ones is above: no further pod of it is evicted."""
GONE_SECONDS = 40.0
COLLECT_EVERY_SECONDS = 20.0
"""Pods of a machine that is no more go at such a look, when it is gone so long."""
NODE_CONTROLLER, TAINT_CONTROLLER = "node-controller", "taint-eviction-controller"
PREFIX = "node.kubernetes.io/"
UNSCHEDULABLE, NOT_READY, UNREACHABLE = f"{PREFIX}unschedulable", f"{PREFIX}not-ready", f"{PREFIX}unreachable"
OF_CONDITIONS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): f"{PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{PREFIX}network-unavailable",
}
OURS = {UNSCHEDULABLE, *OF_CONDITIONS.values()}
SILENT_WORDS = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
NEVER_WORDS = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
DELETING = "Taint manager: deleting due to NoExecute taint"


class NodeLifecycle:
    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._known: dict[str, Object] = {}
        self._was_ready: dict[str, bool] = {}
        self._look_at = 0.0

    def step(self, hands: ControllerTools, machines: MachineController) -> None:
        nodes = hands.look("nodes")
        now = hands.clock.seconds
        for node in nodes:
            if node["metadata"]["name"] not in self._heard or not machines.is_silent(node):
                self._heard[node["metadata"]["name"]] = now
        self._tell_of_arrivals(hands, nodes)
        if now >= self._look_at:
            self._look_at = now + MONITOR_SECONDS
            for node in nodes:
                if now - self._heard[node["metadata"]["name"]] > GRACE_SECONDS:
                    _say_silent(hands, node)
        for node in hands.look("nodes"):
            self._follow(hands, node)

    def _tell_of_arrivals(self, hands: ControllerTools, nodes: list[Object]) -> None:
        there = {node["metadata"]["uid"]: node for node in nodes}
        for uid in there.keys() - self._known.keys():
            _tell(hands, there[uid], "RegisteredNode", "Registered Node {} in Controller")
        for uid in self._known.keys() - there.keys():
            node = self._known[uid]
            _tell(hands, node, "RemovingNode", "Removing Node {} from Controller")
            for kept in (self._heard, self._was_ready):
                kept.pop(node["metadata"]["name"], None)
        self._known = there

    def _follow(self, hands: ControllerTools, node: Object) -> None:
        name, ready = node["metadata"]["name"], _ready(node)
        if self._was_ready.get(name) and ready != "True":
            said = f"Node {name} status is now: NodeNotReady"
            hands.events.say(NODE_CONTROLLER, node, "NodeNotReady", said)
            _unready_pods(hands, name)
        self._was_ready[name] = ready == "True"
        wanted = {
            OF_CONDITIONS[kind, status]
            for kind, status in (
                (one["type"], one["status"]) for one in node["status"].get("conditions") or ()
            )
            if (kind, status) in OF_CONDITIONS
        }
        if node["spec"].get("unschedulable"):
            wanted.add(UNSCHEDULABLE)
        taint(hands, node, wanted, "NoSchedule", OURS)


class Evictions:
    """NoExecute taints of machines that are not ready, some seconds apart, and what they do to pods."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._due: dict[str, _Due] = {}

    def step(self, hands: ControllerTools) -> None:
        self._taint(hands)
        nodes = {node["metadata"]["name"]: node for node in hands.look("nodes")}
        tainted = {
            name: [one for one in node["spec"].get("taints") or () if one["effect"] == "NoExecute"]
            for name, node in nodes.items()
        }
        here: set[str] = set()
        for pod in hands.look("pods"):
            taints = tainted.get(pod["spec"].get("nodeName", ""), [])
            if taints and "deletionTimestamp" not in pod["metadata"]:
                here.add(pod["metadata"]["uid"])
                self._judge(hands, pod, taints)
        for uid in self._due.keys() - here:
            due = self._due.pop(uid)
            pod = due.pod
            if hands.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]) is not None:
                _tell_of_pod(hands, pod, "Cancelling deletion of Pod")

    def _taint(self, hands: ControllerTools) -> None:
        nodes = hands.look("nodes")
        by_zone: dict[str, list[Object]] = {}
        for node in nodes:
            by_zone.setdefault(_zone(node), []).append(node)
        if not any(_ready(node) == "True" for node in nodes):
            # All at once: rather the controller is cut off than they are.
            for node in nodes:
                taint(hands, node, set(), "NoExecute", {NOT_READY, UNREACHABLE})
            return
        for zone, members in by_zone.items():
            sick = [node for node in members if _ready(node) in ("False", "Unknown")]
            is_partial = len(sick) > 2 and len(sick) / len(members) >= UNHEALTHY_SHARE
            for node in members:
                wanted = {"False": {NOT_READY}, "Unknown": {UNREACHABLE}}.get(_ready(node), set())
                taints = node["spec"].get("taints") or ()
                held = {one["key"] for one in taints if one["effect"] == "NoExecute"}
                is_new = bool(wanted - held)
                if is_new and not held & {NOT_READY, UNREACHABLE}:
                    if is_partial and len(members) <= LARGE_ZONE:
                        continue
                    if hands.clock.seconds < self._next.get(zone, 0.0):
                        continue
                    self._next[zone] = hands.clock.seconds + SECONDS_BETWEEN_TAINTS
                taint(hands, node, wanted, "NoExecute", {NOT_READY, UNREACHABLE})

    def _judge(self, hands: ControllerTools, pod: Object, taints: list[Object]) -> None:
        uid, now = pod["metadata"]["uid"], hands.clock.seconds
        found = [matching_toleration(pod["spec"], one) for one in taints]
        given = [one.get("tolerationSeconds") for one in found if one]
        limits = [one for one in given if one is not None]
        if all(found) and not limits:
            return
        wait = max(0.0, float(min(limits))) if all(found) else 0.0
        due = self._due.setdefault(uid, _Due(pod, now))
        if now >= due.since + wait:
            del self._due[uid]
            _tell_of_pod(hands, pod, "Marking for deletion Pod")
            hands.disrupt(pod, "DeletionByTaintManager", DELETING)
            hands.delete("pods", pod)


@dataclass(frozen=True)
class _Due:
    pod: Object
    since: float


class PodCollector:
    """Pods of machines that are no more."""

    def __init__(self) -> None:
        self._gone_since: dict[str, float] = {}
        self._look_at = 0.0

    def step(self, hands: ControllerTools) -> None:
        now = hands.clock.seconds
        if now < self._look_at:
            return
        self._look_at = now + COLLECT_EVERY_SECONDS
        names = {node["metadata"]["name"] for node in hands.look("nodes")}
        bound = [pod for pod in hands.look("pods") if pod["spec"].get("nodeName")]
        missing = {pod["spec"]["nodeName"] for pod in bound} - names
        self._gone_since = {name: self._gone_since.get(name, now) for name in missing}
        for pod in bound:
            since = self._gone_since.get(pod["spec"]["nodeName"])
            if since is None or now < since + GONE_SECONDS:
                continue
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                hands.disrupt(pod, "DeletionByPodGC", "PodGC: node no longer exists")
                current = hands.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
                if current is not None:
                    hands.set_status("pods", current, current["status"] | {"phase": "Failed"})
            hands.delete("pods", pod, gracePeriodSeconds=0)


def taint(hands: ControllerTools, node: Object, wanted: set[str], effect: str, among: set[str]) -> None:
    """Have those of `wanted` with this effect, and no others of `among`."""
    taints = node["spec"].get("taints") or []
    left = [one for one in taints if one["effect"] != effect or one["key"] not in among - wanted]
    held = {one["key"] for one in left if one["effect"] == effect}
    now = hands.clock.stamp()
    left += [{"key": key, "effect": effect, "timeAdded": now} for key in sorted(wanted - held)]
    if left != taints:
        hands.change("nodes", node, spec_taints=left or None)


def _say_silent(hands: ControllerTools, node: Object) -> None:
    conditions = [dict(one) for one in node["status"].get("conditions") or ()]
    told = {one["type"]: one["status"] for one in conditions}
    if all(told.get(kind) == "Unknown" for kind in HEALTH):
        return
    now = hands.clock.stamp()
    for kind in HEALTH:
        words = SILENT_WORDS if kind in told else NEVER_WORDS
        set_condition(conditions, kind, "Unknown", now, **words)

    def change(item: Object) -> Object:
        item["status"]["conditions"] = conditions
        return item

    hands.edit("nodes", node, change, BY_STATUS)


def _unready_pods(hands: ControllerTools, name: str) -> None:
    for pod in hands.look("pods"):
        if pod["spec"].get("nodeName") != name:
            continue
        conditions = [dict(one) for one in pod["status"].get("conditions") or ()]
        ready = next((one for one in conditions if one["type"] == "Ready"), None)
        if ready is not None and ready["status"] == "True":
            set_condition(conditions, "Ready", "False", hands.clock.stamp())
            hands.set_status("pods", pod, pod["status"] | {"conditions": conditions})
            hands.events.say(NODE_CONTROLLER, pod, "NodeNotReady", "Node is not ready", warning=True)


def _ready(node: Object) -> str:
    conditions = node["status"].get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def _zone(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    return ":".join(labels.get(key, "") for key in ZONES)


def _tell(hands: ControllerTools, node: Object, reason: str, words: str) -> None:
    name = node["metadata"]["name"]
    hands.events.say(NODE_CONTROLLER, node, reason, f"Node {name} event: {words.format(name)}")


def _tell_of_pod(hands: ControllerTools, pod: Object, words: str) -> None:
    place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    hands.events.say(TAINT_CONTROLLER, pod, "TaintManagerEviction", f"{words} {place}", is_named_only=True)
