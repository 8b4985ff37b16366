"""StatefulSets: pods with names of their own, made in order, replaced from the highest ordinal down."""

import json

from kube.fake.controllers.controller_tools import ControllerTools, Object, counted, is_owned_by, reference_to
from kube.fake.controllers.deployments import template_hash
from kube.fake.evicting import is_ready
from kube.fake.refusals import RequestRefused

STATEFUL_SETS = "statefulsets.apps"
CONTROLLER = "statefulset-controller"
REVISION = "controller-revision-hash"


def step(hands: ControllerTools) -> None:
    for one in hands.all(STATEFUL_SETS):
        _StatefulSetSync(hands, one).take()


def ordinal_of(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


class _StatefulSetSync:
    def __init__(self, hands: ControllerTools, item: Object) -> None:
        self.hands = hands
        self.item = item
        self.spec: Object = item["spec"]
        self.name: str = item["metadata"]["name"]
        self.revision = f"{self.name}-{template_hash(self.spec['template'])}"
        mine = hands.look("pods", item["metadata"]["namespace"])
        self.pods = {ordinal_of(pod): pod for pod in mine if is_owned_by(pod, item)}
        self.is_ordered = self.spec.get("podManagementPolicy") != "Parallel"

    def take(self) -> None:
        if "deletionTimestamp" not in self.item["metadata"]:
            self._scale()
        self._tell()

    def _scale(self) -> None:
        first = (self.spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + self.spec.get("replicas", 1))
        for ordinal in wanted:
            pod = self.pods.get(ordinal)
            if pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed"):
                self._delete(pod)
            elif (pod is None and not self._make(ordinal)) or (
                self.is_ordered and not self._is_well(ordinal)
            ):
                return
        for ordinal in sorted(self.pods.keys() - set(wanted), reverse=True):
            self._delete(self.pods[ordinal])
            if self.is_ordered:
                return
        if self.spec["updateStrategy"]["type"] == "RollingUpdate":
            self._update(wanted)

    def _update(self, wanted: range) -> None:
        partition = (self.spec["updateStrategy"].get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in sorted(wanted, reverse=True):
            if ordinal < partition:
                return
            pod = self.pods[ordinal]
            if pod["metadata"]["labels"].get(REVISION) != self.revision:
                self._delete(pod)
                return
            if not self._is_well(ordinal):
                return

    def _is_well(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is not None and "deletionTimestamp" not in pod["metadata"] and is_ready(pod)

    def _make(self, ordinal: int) -> bool:
        name = f"{self.name}-{ordinal}"
        template = json.loads(json.dumps(self.spec["template"]))
        metadata = template.get("metadata") or {}
        labels = (metadata.get("labels") or {}) | {
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION: self.revision,
            "statefulset.kubernetes.io/pod-name": name,
        }
        metadata |= {
            "name": name,
            "generateName": f"{self.name}-",
            "namespace": self.item["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [reference_to(self.item)],
        }
        spec = template["spec"] | {"hostname": name}
        if self.spec.get("serviceName"):
            spec["subdomain"] = self.spec["serviceName"]
        try:
            self.pods[ordinal] = self.hands.create("pods", {"metadata": metadata, "spec": spec})
        except RequestRefused as refused:
            why = f"create Pod {name} in StatefulSet {self.name} failed error: {refused.message}"
            self._say("FailedCreate", why, warning=True)
            return False
        self._say("SuccessfulCreate", f"create Pod {name} in StatefulSet {self.name} successful")
        return True

    def _delete(self, pod: Object) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            return
        self.hands.delete("pods", pod)
        name = pod["metadata"]["name"]
        self._say("SuccessfulDelete", f"delete Pod {name} in StatefulSet {self.name} successful")

    def _say(self, reason: str, message: str, *, warning: bool = False) -> None:
        said = message[0].upper() + message[1:] if not warning else message
        self.hands.events.say(CONTROLLER, self.item, reason, said, warning=warning)

    def _tell(self) -> None:
        before = self.item["status"]
        pods = list(self.pods.values())
        ready = sum(map(is_ready, pods))
        new = sum(pod["metadata"]["labels"].get(REVISION) == self.revision for pod in pods)
        replicas = self.spec.get("replicas", 1)
        is_over = new == len(pods) == ready == replicas
        current = self.revision if is_over else before.get("currentRevision") or self.revision
        is_one = current == self.revision
        status: Object = {"observedGeneration": self.item["metadata"]["generation"], "replicas": len(pods)}
        status |= counted(
            readyReplicas=ready,
            currentReplicas=new if is_one else len(pods) - new,
            updatedReplicas=new,
        )
        status |= {"currentRevision": current, "updateRevision": self.revision, "collisionCount": 0}
        status |= {"availableReplicas": ready}
        if status != before:
            self.hands.set_status(STATEFUL_SETS, self.item, status)
