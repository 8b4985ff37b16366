"""LeaderWorkerSets: groups of pods that work as one, each a leader and a StatefulSet of its workers.

Names, labels and variables: LeaderWorkerSet v1, pkg/controllers and pkg/webhooks. Groups are not updated in
turns: their leaders' StatefulSet replaces them.
"""

import json

from kube.fake.controllers.controller_tools import (
    ControllerTools,
    Object,
    is_owned_by,
    reference_to,
    set_condition,
)
from kube.fake.controllers.deployments import template_hash
from kube.fake.controllers.stateful_sets import STATEFUL_SETS, ordinal_of
from kube.fake.evicting import is_ready

SETS = "leaderworkersets.leaderworkerset.x-k8s.io"
PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME, GROUP, WORKER = f"{PREFIX}name", f"{PREFIX}group-index", f"{PREFIX}worker-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
SIZE, REVISION = f"{PREFIX}size", f"{PREFIX}template-revision-hash"


def step(hands: ControllerTools) -> None:
    if not hands.has(SETS):
        return
    for one in hands.all(SETS):
        if "deletionTimestamp" not in one["metadata"]:
            _LeaderWorkerSetSync(hands, one).take()


class _LeaderWorkerSetSync:
    def __init__(self, hands: ControllerTools, item: Object) -> None:
        self.hands = hands
        self.item = item
        self.name: str = item["metadata"]["name"]
        self.namespace: str = item["metadata"]["namespace"]
        self.spec: Object = item["spec"]
        self.group: Object = self.spec["leaderWorkerTemplate"]
        self.size: int = self.group["size"]
        self.revision = template_hash(self.group)

    def take(self) -> None:
        self._make_service()
        leaders = self._leaders()
        for leader in leaders:
            self._follow(leader)
        self._tell(leaders)

    def _make_service(self) -> None:
        if self.hands.get("services", self.namespace, self.name) is None:
            spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {NAME: self.name}}
            self.hands.create("services", {"metadata": self._metadata(self.name), "spec": spec})

    def _leaders(self) -> list[Object]:
        template = self.group.get("leaderTemplate") or self.group["workerTemplate"]
        wanted = self._template(template, {WORKER: "0"}, index=0)
        self._have_set(self.name, self.spec["replicas"], wanted, owner=self.item, start=0)
        found = self.hands.get(STATEFUL_SETS, self.namespace, self.name)
        pods = self.hands.all("pods", self.namespace)
        own = sorted((one for one in pods if found and is_owned_by(one, found)), key=ordinal_of)
        return [self._labelled(one) for one in own]

    def _labelled(self, leader: Object) -> Object:
        """Add labels, as the controller's webhook does when the pod is made."""
        labels = leader["metadata"]["labels"]
        if GROUP in labels:
            return leader

        def change(item: Object) -> Object:
            item["metadata"]["labels"][GROUP] = str(ordinal_of(leader))
            return item

        return self.hands.edit("pods", leader, change)

    def _follow(self, leader: Object) -> None:
        """The workers of its group; all of them anew when one had to start again."""
        if "deletionTimestamp" in leader["metadata"] or self.size < 2:
            return
        group, name = str(ordinal_of(leader)), leader["metadata"]["name"]
        failed = self._failed(leader)
        if self.group.get("restartPolicy") == "RecreateGroupOnPodRestart" and failed:
            said = f"Worker pod {failed} failed, deleted leader pod {name} to recreate group {group}"
            self.hands.events.say("leaderworkerset", self.item, "RecreateGroupOnPodRestart", said)
            self.hands.delete("pods", leader, propagationPolicy="Foreground")
            return
        if self.spec.get("startupPolicy") == "LeaderReady" and not is_ready(leader):
            return
        template = self._template(self.group["workerTemplate"], {GROUP: group}, index=None)
        self._have_set(name, self.size - 1, template, owner=leader, start=1)

    def _failed(self, leader: Object) -> str:
        """The first pod of the group that failed or had to start again; empty: none."""
        workers = self.hands.get(STATEFUL_SETS, self.namespace, leader["metadata"]["name"])
        pods = [
            pod
            for pod in self.hands.look("pods", self.namespace)
            if workers is not None and is_owned_by(pod, workers)
        ]
        for pod in [leader, *pods]:
            statuses = pod["status"].get("containerStatuses") or ()
            if pod["status"].get("phase") == "Failed" or any(one.get("restartCount") for one in statuses):
                return str(pod["metadata"]["name"])
        return ""

    def _have_set(self, name: str, replicas: int, template: Object, *, owner: Object, start: int) -> None:
        found = self.hands.get(STATEFUL_SETS, self.namespace, name)
        if found is None:
            labels = template["metadata"]["labels"]
            selector = {key: one for key, one in labels.items() if key in (NAME, GROUP, WORKER)}
            spec = {"replicas": replicas, "serviceName": self.name, "podManagementPolicy": "Parallel"}
            spec |= {"selector": {"matchLabels": selector}, "template": template}
            if start:
                spec["ordinals"] = {"start": start}
            metadata = self._metadata(name, owner) | {"labels": {NAME: self.name, REVISION: self.revision}}
            self.hands.create(STATEFUL_SETS, {"metadata": metadata, "spec": spec})
            return
        is_old = found["metadata"].get("labels", {}).get(REVISION) != self.revision
        if not is_old and found["spec"].get("replicas") == replicas:
            return

        def change(item: Object) -> Object:
            item["spec"] |= {"replicas": replicas} | ({"template": template} if is_old else {})
            item["metadata"]["labels"][REVISION] = self.revision
            return item

        self.hands.edit(STATEFUL_SETS, found, change)

    def _template(self, template: Object, labels: dict[str, str], *, index: int | None) -> Object:
        made: Object = json.loads(json.dumps(template))
        metadata = made.setdefault("metadata", {})
        told = {NAME: self.name, REVISION: self.revision} | labels
        metadata["labels"] = (metadata.get("labels") or {}) | told
        metadata["annotations"] = (metadata.get("annotations") or {}) | {SIZE: str(self.size)}
        for container in made["spec"]["containers"]:
            mine = [one for one in container.get("env") or () if not one["name"].startswith("LWS_")]
            leader = f"$(LWS_LEADER_NAME).{self.name}.{self.namespace}"
            container["env"] = [
                {"name": "LWS_LEADER_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
                if index == 0
                else {"name": "LWS_LEADER_NAME", "value": f"{self.name}-{labels[GROUP]}"},
                {"name": "LWS_LEADER_ADDRESS", "value": leader},
                {"name": "LWS_GROUP_SIZE", "value": str(self.size)},
                {"name": "LWS_WORKER_INDEX", "value": "0"}
                if index == 0
                else {
                    "name": "LWS_WORKER_INDEX",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}
                    },
                },
                *mine,
            ]
        return made

    def _metadata(self, name: str, owner: Object | None = None) -> Object:
        return {
            "name": name,
            "namespace": self.namespace,
            "ownerReferences": [reference_to(owner or self.item)],
        }

    def _tell(self, leaders: list[Object]) -> None:
        ready = sum(self._is_group_ready(leader) for leader in leaders)
        updated = sum(one["metadata"]["labels"].get(REVISION) == self.revision for one in leaders)
        before = self.item.get("status") or {}
        conditions = [dict(one) for one in before.get("conditions") or ()]
        is_done = ready == updated == len(leaders) == self.spec["replicas"]
        now = self.hands.clock.stamp()
        words = {"reason": "AllGroupsReady", "message": "All replicas are ready"}
        set_condition(conditions, "Available", "True" if is_done else "False", now, **words)
        words = {"reason": "GroupsProgressing", "message": "Replicas are progressing"}
        set_condition(conditions, "Progressing", "False" if is_done else "True", now, **words)
        status = {
            "conditions": conditions,
            "hpaPodSelector": f"{NAME}={self.name},{WORKER}=0",
            "observedGeneration": self.item["metadata"]["generation"],
            "readyReplicas": ready,
            "replicas": len(leaders),
            "updatedReplicas": updated,
        }
        if status != before:
            self.hands.set_status(SETS, self.item, status)

    def _is_group_ready(self, leader: Object) -> bool:
        if not is_ready(leader) or self.size < 2:
            return is_ready(leader)
        workers = self.hands.get(STATEFUL_SETS, self.namespace, leader["metadata"]["name"])
        return workers is not None and workers["status"].get("readyReplicas", 0) == self.size - 1
