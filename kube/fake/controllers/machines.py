"""Kubelets that pretend: what they say of their machines, and what becomes of the pods there."""

from collections.abc import Callable
from typing import Any, Protocol

from kube.fake.controllers.controller_tools import ControllerTools, Object, set_condition
from kube.fake.writing import WriteOptions

BEHAVIOUR = "fake.slipway.io/behaviour"
"""Annotation of a pod; of a node, `silent` is a machine that is not heard of."""
SILENT = "silent"
START_SECONDS = 0.75
END_SECONDS = 0.75
RUN_SECONDS = 1.0
"""For which a pod of the behaviour `succeed`, `fail:N` or `evicted` works."""
BACK_OFF_SECONDS = 15.0
"""After which a kubelet tells of the same back-off again."""
LEASE_EVERY_SECONDS = 10.0
LEASE_SECONDS = 40
KUBELET = "kubelet"
BY_KUBELET = WriteOptions(KUBELET, subresource="status")
HEALTH = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
"""What a kubelet that is well says of its machine."""
LOW_ON_MEMORY = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 20Mi. "


def behaviour_of(pod: Object) -> str:
    """`run`, `unready`, `creating`, `imagepull`, `succeed`, `fail:N`, `crashloop:N`, `oom:N` or `evicted`."""
    return str((pod["metadata"].get("annotations") or {}).get(BEHAVIOUR, "run"))


def is_silent(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(BEHAVIOUR) == SILENT


class MachineController(Protocol):
    """Runs the pods of the machines."""

    def step(self, hands: ControllerTools) -> None: ...

    def is_silent(self, node: Object) -> bool: ...


class Reports:
    """Writes what kubelets report of their machines: a lease every ten seconds, and recovery."""

    def __init__(self) -> None:
        self._lease_at: dict[str, float] = {}
        self._posts: set[str] = set()
        """Uids of machines whose kubelet has told of its conditions."""
        self.renewals = 0
        """Writes that are no news."""

    def step(self, hands: ControllerTools, machines: MachineController) -> None:
        for node in hands.look("nodes"):
            conditions = {one["type"]: one for one in node["status"].get("conditions") or ()}
            uid = node["metadata"]["uid"]
            if "Ready" in conditions:
                self._posts.add(uid)
            if uid not in self._posts or machines.is_silent(node):
                continue
            self._renew(hands, node)
            if conditions.get("Ready", {"status": "Unknown"})["status"] == "Unknown":
                _report_health(hands, node, conditions)

    def _renew(self, hands: ControllerTools, node: Object) -> None:
        name, now = node["metadata"]["name"], hands.clock.seconds
        if now < self._lease_at.get(name, 0.0):
            return
        self._lease_at[name] = now + LEASE_EVERY_SECONDS
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS}
        spec |= {"renewTime": hands.clock.exact_stamp()}
        kind = hands.server.kind_of("leases.coordination.k8s.io")
        lease = hands.server.storage.get(kind, "kube-node-lease", name)
        before = hands.server.storage.revision
        if lease is None:
            metadata = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
            hands.create(kind.resource, {"metadata": metadata, "spec": spec})
        else:
            hands.server.storage.put(kind, lease | {"spec": spec})
        self.renewals += hands.server.storage.revision - before


def _report_health(hands: ControllerTools, node: Object, conditions: dict[str, Object]) -> None:
    now = hands.clock.stamp()
    told = [dict(conditions.get(kind, {"type": kind})) for kind in HEALTH]
    told += [dict(one) for kind, one in conditions.items() if kind not in HEALTH]
    for kind, (status, reason, message) in HEALTH.items():
        words = {"reason": reason, "message": message, "lastHeartbeatTime": now}
        set_condition(told, kind, status, now, **words)
    hands.edit("nodes", node, _with_conditions(told), BY_KUBELET)
    name = node["metadata"]["name"]
    said = f"Node {name} status is now: NodeReady"
    hands.events.say(KUBELET, node, "NodeReady", said, host=name)


def _with_conditions(conditions: list[Object]) -> Callable[[Object], Object]:
    def change(item: Object) -> Object:
        item["status"]["conditions"] = conditions
        return item

    return change


class Kubelets:
    """Kubelets of all nodes but those in `silent`, whose pods stay as they are."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.behaviour_of: Callable[[Object], str] = behaviour_of
        self._seen: dict[str, float] = {}
        self._told: dict[str, float] = {}
        """By uid of a pod and words: when they were last said of it."""

    def is_silent(self, node: Object) -> bool:
        return node["metadata"]["name"] in self.silent or is_silent(node)

    def step(self, hands: ControllerTools) -> None:
        names = {node["metadata"]["name"] for node in hands.look("nodes") if not self.is_silent(node)}
        for pod in hands.all("pods"):
            if pod["spec"].get("nodeName") not in names:
                continue
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                self._end(hands, pod)
                continue
            age = hands.clock.seconds - self._seen.setdefault(uid, hands.clock.seconds)
            self._say_life(hands, pod, age)
            status = self._status(hands, pod, age)
            if status is not None and _differs(status, pod["status"]):
                hands.edit("pods", pod, _setting(status), BY_KUBELET)

    def _end(self, hands: ControllerTools, pod: Object) -> None:
        metadata = pod["metadata"]
        grace = metadata.get("deletionGracePeriodSeconds", 0)
        asked = hands.clock.seconds_of(metadata["deletionTimestamp"]) - grace
        begun = self._seen.setdefault(f"{metadata['uid']} ends", max(asked, hands.clock.seconds))
        if pod["status"].get("phase") == "Running":
            for name in _containers(pod):
                self._say_once(hands, pod, name, "Killing", f"Stopping container {name}")
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

    def _say_life(self, hands: ControllerTools, pod: Object, age: float) -> None:
        kind, _, _ = self.behaviour_of(pod).partition(":")
        if pod["status"].get("phase") in ("Succeeded", "Failed") or kind == "creating":
            return
        images = {one["name"]: one["image"] for one in pod["spec"]["containers"]}
        for name, image in images.items():
            self._say_once(hands, pod, name, "Pulling", f'Pulling image "{image}"')
            if age < START_SECONDS:
                continue
            if kind == "imagepull":
                why = f'Failed to pull image "{image}": {_not_found(image)}'
                self._say_once(hands, pod, name, "Failed", why, warning=True)
                self._say_once(hands, pod, name, "Failed", "Error: ErrImagePull", warning=True)
                self._say_again(hands, pod, name, "BackOff", f'Back-off pulling image "{image}"')
                self._say_again(hands, pod, name, "Failed", "Error: ImagePullBackOff", warning=True)
                continue
            pulled = f'Successfully pulled image "{image}" in {START_SECONDS:.3f}s'
            pulled += f" ({START_SECONDS:.3f}s including waiting). Image size: 4096 bytes."
            self._say_once(hands, pod, name, "Pulled", pulled)
            self._say_once(hands, pod, name, "Created", "Container created")
            self._say_once(hands, pod, name, "Started", "Container started")
            if kind in ("crashloop", "oom"):
                metadata = pod["metadata"]
                which = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
                said = f"Back-off restarting failed container {name} in pod {which}"
                self._say_again(hands, pod, name, "BackOff", said, warning=True)
            if kind == "unready":
                said = "Readiness probe failed: HTTP probe failed with statuscode: 503"
                self._say_again(hands, pod, name, "Unhealthy", said, warning=True)
        if kind == "evicted" and age >= START_SECONDS + RUN_SECONDS:
            self._say_once(hands, pod, "", "Evicted", _why_evicted(pod), warning=True)

    def _say_once(
        self,
        hands: ControllerTools,
        pod: Object,
        container: str,
        reason: str,
        message: str,
        *,
        warning: bool = False,
    ) -> None:
        self._say_again(hands, pod, container, reason, message, warning=warning, after=float("inf"))

    def _say_again(
        self,
        hands: ControllerTools,
        pod: Object,
        container: str,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        after: float = BACK_OFF_SECONDS,
    ) -> None:
        key, now = f"{pod['metadata']['uid']} {container} {reason} {message}", hands.clock.seconds
        if key in self._told and now < self._told[key] + after:
            return
        self._told[key] = now
        path = f"spec.containers{{{container}}}" if container else ""
        host = pod["spec"]["nodeName"]
        hands.events.say(KUBELET, pod, reason, message, warning=warning, field_path=path, host=host)

    def _status(self, hands: ControllerTools, pod: Object, age: float) -> Object | None:
        kind, _, number = self.behaviour_of(pod).partition(":")
        phase = pod["status"].get("phase")
        if phase in ("Succeeded", "Failed") or kind == "creating" or age < START_SECONDS:
            return None
        if kind == "imagepull":
            image = pod["spec"]["containers"][0]["image"]
            said = f'Back-off pulling image "{image}": ErrImagePull: {_not_found(image)}'
            waiting = {"reason": "ImagePullBackOff", "message": said}
            return self._told_status(hands, pod, "Pending", {"waiting": waiting}, is_ready=False)
        if kind in ("succeed", "fail") and age >= START_SECONDS + RUN_SECONDS:
            code = int(number or 0) if kind == "fail" else 0
            ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
            return self._told_status(
                hands, pod, "Failed" if code else "Succeeded", {"terminated": ended}, is_ready=False
            )
        if kind == "evicted" and age >= START_SECONDS + RUN_SECONDS:
            ended = {"exitCode": 137, "reason": "Error"}
            status = self._told_status(hands, pod, "Failed", {"terminated": ended}, is_ready=False)
            return status | {"reason": "Evicted", "message": _why_evicted(pod)}
        if kind in ("crashloop", "oom"):
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            code, reason = (137, "OOMKilled") if kind == "oom" else (1, "Error")
            return self._told_status(
                hands,
                pod,
                "Running",
                {"waiting": waiting},
                is_ready=False,
                restarts=int(number or 1),
                last={"terminated": {"exitCode": code, "reason": reason}},
            )
        running = {"startedAt": hands.clock.stamp()}
        return self._told_status(hands, pod, "Running", {"running": running}, is_ready=kind != "unready")

    def _told_status(
        self,
        hands: ControllerTools,
        pod: Object,
        phase: str,
        state: Object,
        *,
        is_ready: bool,
        restarts: int = 0,
        last: Object | None = None,
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
                "lastState": last or {},
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


def _containers(pod: Object) -> list[str]:
    return [one["name"] for one in pod["spec"]["containers"]]


def _not_found(image: str) -> str:
    return f'failed to resolve reference "{image}": {image}: not found'


def _why_evicted(pod: Object) -> str:
    return LOW_ON_MEMORY + f"Container {_containers(pod)[0]} was using 900Mi, request is 0."


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
