"""The scheduler: where pods stand, why one finds no place, and who makes room for whom."""

from collections import Counter
from decimal import Decimal
from typing import Any

from kube.fake.controllers.claims import ClaimPlacing
from kube.fake.controllers.controller_tools import ControllerTools, Object, set_condition
from kube.fake.defaults import quantity
from kube.fake.selectors import matches_expression

SCHEDULER = "default-scheduler"
ZONES = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_ROOM = "not eligible due to a terminating pod on the nominated node."
GATED = "Scheduling is blocked due to non-empty scheduling gates"
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
PREEMPTING = f"{SCHEDULER}: preempting to accommodate a higher priority pod"
SAYS_AGAIN_SECONDS = 300.0
"""After which what still has no place is tried, and told of, again."""
Amounts = dict[str, Decimal]


class Scheduler:
    def __init__(self) -> None:
        self._said_at: dict[str, float] = {}
        """By uid of a pod."""

    def step(self, hands: ControllerTools) -> None:
        waiting = [pod for pod in hands.look("pods") if _is_to_be_placed(pod)]
        if not waiting:
            return
        nodes = hands.look("nodes")
        room = _Room(hands, nodes)
        for pod in sorted(waiting, key=lambda one: -one["spec"].get("priority", 0)):
            if pod["spec"].get("schedulingGates"):
                self._say(hands, pod, "SchedulingGated", GATED)
            elif room.devices.waits(pod):
                continue
            elif missing := _missing_claim(hands, pod):
                self._say(hands, pod, "Unschedulable", f"0/{len(nodes)} nodes are available: {missing}")
            elif nodes:
                self._place(hands, room, pod)

    def _place(self, hands: ControllerTools, room: "_Room", pod: Object) -> None:
        reasons = {node["metadata"]["name"]: room.why_not(pod, node) for node in room.nodes}
        free = [node for node in room.nodes if not reasons[node["metadata"]["name"]]]
        if free:
            chosen = min(free, key=lambda node: (room.pods(node), node["metadata"]["name"]))
            room.devices.take(pod, chosen)
            _bind(hands, pod, chosen)
            room.take(pod, chosen)
            return
        counts = Counter(one for of_node in reasons.values() for one in of_node)
        said = ", ".join(sorted(f"{count} {one}" for one, count in counts.items()))
        message = f"0/{len(reasons)} nodes are available: {said}."
        preemption = self._preempt(hands, room, pod, reasons)
        if preemption:
            message += f" no new claims to deallocate, preemption: {preemption}"
        self._say(hands, pod, "Unschedulable", message)

    def _preempt(
        self, hands: ControllerTools, room: "_Room", pod: Object, reasons: dict[str, list[str]]
    ) -> str:
        """Why nobody makes room for it; empty when somebody does."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return NEVER_PREEMPTS
        nominated = pod["status"].get("nominatedNodeName")
        if nominated and any("deletionTimestamp" in one["metadata"] for one in room.on(nominated)):
            return WAITS_FOR_ROOM
        verdicts: Counter[str] = Counter()
        found: list[tuple[int, str, list[Object]]] = []
        for node in room.nodes:
            name = node["metadata"]["name"]
            if not all(one.startswith("Insufficient") for one in reasons[name]) or not room.could(pod, node):
                verdicts[NOT_HELPFUL] += 1
            elif (victims := room.victims(pod, node)) is None:
                verdicts[NO_VICTIMS] += 1
            else:
                found.append((len(victims), name, victims))
        if not found:
            said = ", ".join(sorted(f"{count} {one}" for one, count in verdicts.items()))
            return f"0/{len(room.nodes)} nodes are available: {said}."
        _, name, victims = min(found, key=lambda one: one[:2])
        for victim in victims:
            _make_room(hands, victim, pod, name)
        hands.set_status("pods", pod, pod["status"] | {"nominatedNodeName": name})
        return ""

    def _say(self, hands: ControllerTools, pod: Object, reason: str, message: str) -> None:
        uid, now = pod["metadata"]["uid"], hands.clock.seconds
        current = hands.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if current is None:
            return
        conditions = [dict(one) for one in current["status"].get("conditions") or ()]
        before = str(conditions)
        set_condition(
            conditions, "PodScheduled", "False", hands.clock.stamp(), reason=reason, message=message
        )
        told = next(one for one in conditions if one["type"] == "PodScheduled")
        told["observedGeneration"] = current["metadata"].get("generation", 1)
        is_news = str(conditions) != before
        if is_news:
            hands.set_status("pods", current, current["status"] | {"conditions": conditions})
        if is_news or now >= self._said_at.get(uid, 0.0) + SAYS_AGAIN_SECONDS:
            self._said_at[uid] = now
            if reason != "SchedulingGated":
                hands.events.say_scheduling(pod, "FailedScheduling", "Scheduling", message, warning=True)


class _Room:
    """Allocations of each machine, as it is filled."""

    def __init__(self, hands: ControllerTools, nodes: list[Object]) -> None:
        self.nodes = nodes
        self.devices = ClaimPlacing(hands)
        self._on: dict[str, list[Object]] = {node["metadata"]["name"]: [] for node in nodes}
        for pod in hands.look("pods"):
            self._on.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)

    def pods(self, node: Object) -> int:
        return len(self.on(node["metadata"]["name"]))

    def on(self, name: str) -> list[Object]:
        return self._on.get(name, [])

    def take(self, pod: Object, node: Object) -> None:
        self._on[node["metadata"]["name"]].append(pod)

    def why_not(self, pod: Object, node: Object) -> list[str]:
        spec = pod["spec"]
        if node["spec"].get("unschedulable") and not tolerates(spec, CORDON_TAINT):
            return [CORDONED]
        for taint in node["spec"].get("taints") or ():
            if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(spec, taint):
                return [TAINTED]
        if not _is_selected(spec, node):
            return [UNSELECTED]
        found = self._insufficient(pod, node, self.on(node["metadata"]["name"]))
        lacking = self.devices.why_not(pod, node)
        return [*found, lacking] if lacking else found

    def could(self, pod: Object, node: Object) -> bool:
        """Were nobody else there."""
        return not self._insufficient(pod, node, [])

    def victims(self, pod: Object, node: Object) -> list[Object] | None:
        """Return pods of lower priority to evict, the lowest first, and no more than needed; None: they are
        not enough.
        """
        mine = pod["spec"].get("priority", 0)
        others = self.on(node["metadata"]["name"])
        lower = [one for one in others if one["spec"].get("priority", 0) < mine]
        lower = [one for one in lower if "deletionTimestamp" not in one["metadata"]]
        chosen: list[Object] = []
        for one in sorted(lower, key=lambda one: one["spec"].get("priority", 0)):
            chosen.append(one)
            if not self._insufficient(pod, node, [each for each in others if each not in chosen]):
                return chosen
        return None

    def _insufficient(self, pod: Object, node: Object, others: list[Object]) -> list[str]:
        room = node["status"].get("allocatable") or {}
        working = [one for one in others if one["status"].get("phase") not in ("Succeeded", "Failed")]
        most = quantity(room["pods"]) if "pods" in room else None
        found = ["Too many pods"] if most is not None and len(working) + 1 > most else []
        used: Amounts = {}
        for one in working:
            for resource, amount in requests_of(one).items():
                used[resource] = used.get(resource, Decimal(0)) + amount
        for resource, wanted in requests_of(pod).items():
            if self.devices.by_devices(resource, node):
                continue
            if wanted + used.get(resource, Decimal(0)) > (quantity(room.get(resource, 0)) or 0):
                found.append(f"Insufficient {resource}")
        return found


def _is_to_be_placed(pod: Object) -> bool:
    spec = pod["spec"]
    if spec.get("nodeName") or spec.get("schedulerName") != SCHEDULER:
        return False
    return "deletionTimestamp" not in pod["metadata"]


def _missing_claim(hands: ControllerTools, pod: Object) -> str:
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and hands.get("persistentvolumeclaims", pod["metadata"]["namespace"], claim) is None:
            return f'persistentvolumeclaim "{claim}" not found. not found'
    return ""


def _is_selected(spec: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(
        all(matches_expression(one, labels) for one in term.get("matchExpressions") or ())
        and all(
            matches_expression(one, {"metadata.name": node["metadata"]["name"]})
            for one in term.get("matchFields") or ()
        )
        for term in required.get("nodeSelectorTerms") or ()
    )


def tolerates(spec: Object, taint: Object) -> bool:
    return any(_tolerates(one, taint) for one in spec.get("tolerations") or ())


def matching_toleration(spec: Object, taint: Object) -> Object | None:
    """The first."""
    return next((one for one in spec.get("tolerations") or () if _tolerates(one, taint)), None)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("key") not in (None, taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def requests_of(pod: Object) -> Amounts:
    total: dict[str, Any] = {}
    for container in pod["spec"].get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, 0) + (quantity(value) or 0)
    return total


def _bind(hands: ControllerTools, pod: Object, node: Object) -> None:
    labels = node["metadata"].get("labels") or {}
    name = node["metadata"]["name"]
    current = hands.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    if current is None:
        return
    current["spec"]["nodeName"] = name
    found = {key: labels[key] for key in ZONES if key in labels}
    if found:
        current["metadata"]["labels"] = (current["metadata"].get("labels") or {}) | found
    conditions = current["status"].setdefault("conditions", [])
    conditions[:] = [one for one in conditions if one["type"] != "PodScheduled"]
    conditions.append(
        {
            "type": "PodScheduled",
            "observedGeneration": 1,
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": hands.clock.stamp(),
        }
    )
    hands.server.storage.put(hands.server.kind_of("pods"), current)
    place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    hands.events.say_scheduling(pod, "Scheduled", "Binding", f"Successfully assigned {place} to {name}")


def _make_room(hands: ControllerTools, victim: Object, pod: Object, node: str) -> None:
    hands.disrupt(victim, "PreemptionByScheduler", PREEMPTING)
    hands.delete("pods", victim)
    said = f"Preempted by pod {pod['metadata']['uid']} on node {node}"
    hands.events.say_scheduling(victim, "Preempted", "Preempting", said)
