"""Deployments and their ReplicaSets: rolling updates, recreation, rollback, deadlines."""

import hashlib
import json
import math
from typing import Any

from kube.fake.controllers.controller_tools import (
    BY_STATUS,
    ControllerTools,
    Object,
    controller_of,
    counted,
    is_owned_by,
    reference_to,
    set_condition,
)
from kube.fake.selectors import matches_labels
from kube.fake.storage import copied

DEPLOYMENTS, REPLICA_SETS = "deployments.apps", "replicasets.apps"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
HASH = "pod-template-hash"
SAFE = "bcdfghjklmnpqrstvwxz2456789"


def amount(value: Any, whole: int, *, is_up: bool) -> int:
    if isinstance(value, str):
        share = int(value.rstrip("%")) * whole / 100
        return math.ceil(share) if is_up else math.floor(share)
    return int(value or 0)


def template_hash(template: Object) -> str:
    """Other letters than the real one's, which hashes Go structs."""
    digest = int(hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest(), 16)
    return "".join(SAFE[(digest >> 5 * place) % len(SAFE)] for place in range(10))


def step(hands: ControllerTools) -> None:
    for deployment in hands.all(DEPLOYMENTS):
        _DeploymentSync(hands, deployment).step()


class _DeploymentSync:
    def __init__(self, hands: ControllerTools, item: Object) -> None:
        self.hands = hands
        self.item = item
        self.metadata, self.spec = item["metadata"], item["spec"]
        self.wanted: int = self.spec.get("replicas", 0)
        self.conditions = [dict(one) for one in item["status"].get("conditions") or ()]
        self.sets = self._own_sets()
        rolling = (self.spec.get("strategy") or {}).get("rollingUpdate") or {}
        self.surge = amount(rolling.get("maxSurge"), self.wanted, is_up=True)
        self.most_unavailable = amount(rolling.get("maxUnavailable"), self.wanted, is_up=False)
        if not self.surge and not self.most_unavailable:
            self.most_unavailable = 1
        if self.spec["strategy"]["type"] == "Recreate":
            self.surge, self.most_unavailable = 0, self.wanted

    def _own_sets(self) -> list[Object]:
        found = []
        for one in self.hands.look(REPLICA_SETS, self.metadata["namespace"]):
            if is_owned_by(one, self.item):
                found.append(copied(one))
            elif self._may_adopt(one):
                found.append(self._adopt(one))
        return found

    def _may_adopt(self, one: Object) -> bool:
        if controller_of(one) is not None or "deletionTimestamp" in self.metadata:
            return False
        return matches_labels(self.spec["selector"], one["metadata"].get("labels") or {})

    def _adopt(self, one: Object) -> Object:
        return self.hands.change(REPLICA_SETS, one, metadata_ownerReferences=[reference_to(self.item)])

    def step(self) -> None:
        if "deletionTimestamp" in self.metadata:
            self._tell(self._new_set())
            return
        new = self._new_set()
        if self.spec.get("paused"):
            self._scale_all_alike(new)
            set_condition(
                self.conditions,
                "Progressing",
                "Unknown",
                self.hands.clock.stamp(),
                reason="DeploymentPaused",
                message="Deployment is paused",
                lastUpdateTime=self.hands.clock.stamp(),
            )
        elif new is None:
            self._make_set()
            return
        else:
            self._roll(new)
        self.sets = self._own_sets()
        self._tell(self._new_set())

    def _new_set(self) -> Object | None:
        """Return the ReplicaSet that has this template."""
        wanted = self.spec["template"]

        def plain(template: Object) -> Object:
            metadata = template.get("metadata") or {}
            labels = {key: one for key, one in (metadata.get("labels") or {}).items() if key != HASH}
            return {"spec": template["spec"], "metadata": metadata | {"labels": labels}}

        return next((one for one in self.sets if plain(one["spec"]["template"]) == plain(wanted)), None)

    def _revision(self, one: Object) -> int:
        return int((one["metadata"].get("annotations") or {}).get(REVISION, 0))

    def _make_set(self) -> None:
        digest = template_hash(self.spec["template"])
        name = f"{self.metadata['name']}-{digest}"
        revision = str(1 + max((self._revision(one) for one in self.sets), default=0))
        template = json.loads(json.dumps(self.spec["template"]))
        template["metadata"].setdefault("labels", {})[HASH] = digest
        selector = json.loads(json.dumps(self.spec["selector"]))
        selector.setdefault("matchLabels", {})[HASH] = digest
        others = sum(one["spec"].get("replicas", 0) for one in self.sets)
        first = min(self.wanted, max(0, self.wanted + self.surge - others))
        if self.spec["strategy"]["type"] == "Recreate" and others:
            first = 0
        item = {
            "metadata": {
                "name": name,
                "namespace": self.metadata["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": {REVISION: revision} | self._sizes(),
                "ownerReferences": [reference_to(self.item)],
            },
            "spec": {"replicas": first, "selector": selector, "template": template},
        }
        self.hands.create(REPLICA_SETS, item)
        self._say_scaled(name, 0, first)
        now = self.hands.clock.stamp()
        set_condition(
            self.conditions,
            "Progressing",
            "True",
            now,
            reason="NewReplicaSetCreated",
            message=f'Created new replica set "{name}"',
            lastUpdateTime=now,
        )

        def told(item: Object) -> Object:
            item["metadata"].setdefault("annotations", {})[REVISION] = revision
            item["status"] = item["status"] | {"conditions": self.conditions}
            return item

        self._write_status(told)

    def _write_status(self, change: Any) -> None:
        self.hands.edit(DEPLOYMENTS, self.item, change, BY_STATUS)

    def _sizes(self) -> Object:
        return {DESIRED: str(self.wanted), MOST: str(self.wanted + self.surge)}

    def _roll(self, new: Object) -> None:
        newest = max((self._revision(one) for one in self.sets if one is not new), default=0)
        if self._revision(new) <= newest:
            self._set_revision(new, newest + 1)
        old = [one for one in self.sets if one is not new]
        if self.spec["strategy"]["type"] == "Recreate":
            for one in old:
                self._scale(one, 0)
            if not any(self._has_pods(one) for one in old):
                self._scale(new, self.wanted)
            return
        size, total = new["spec"].get("replicas", 0), self._size(self.sets)
        if not any(one["spec"].get("replicas") for one in old) or size > self.wanted:
            self._scale(new, self.wanted)
        elif size < self.wanted and total < self.wanted + self.surge:
            self._scale(new, size + min(self.wanted - size, self.wanted + self.surge - total))
        self._shrink(new, old)

    def _shrink(self, new: Object, old: list[Object]) -> None:
        least = self.wanted - self.most_unavailable
        unavailable = new["spec"].get("replicas", 0) - new["status"].get("availableReplicas", 0)
        spare = self._size(self.sets) - least - max(0, unavailable)
        for one in old:
            size, available = one["spec"].get("replicas", 0), one["status"].get("availableReplicas", 0)
            sick = min(size - available, max(0, spare))
            if sick > 0:
                self._scale(one, size - sick)
                spare -= sick
        surplus = sum(one["status"].get("availableReplicas", 0) for one in self.sets) - least
        for one in old:
            size = one["spec"].get("replicas", 0)
            fewer = min(size, max(0, surplus), max(0, spare))
            if fewer:
                self._scale(one, size - fewer)
                surplus, spare = surplus - fewer, spare - fewer

    def _scale_all_alike(self, new: Object | None) -> None:
        """Paused: only a change of size is followed."""
        active = [one for one in self.sets if one["spec"].get("replicas")] or ([new] if new else [])
        if len(active) == 1:
            self._scale(active[0], self.wanted)

    def _size(self, sets: list[Object]) -> int:
        return sum(one["spec"].get("replicas", 0) for one in sets)

    def _has_pods(self, one: Object) -> bool:
        pods = self.hands.look("pods", self.metadata["namespace"])
        return any(is_owned_by(pod, one) for pod in pods)

    def _scale(self, one: Object, replicas: int) -> None:
        if one["spec"].get("replicas", 0) == replicas:
            return

        def change(item: Object) -> Object:
            item["spec"]["replicas"] = replicas
            item["metadata"]["annotations"] |= self._sizes()
            return item

        self._say_scaled(one["metadata"]["name"], one["spec"].get("replicas", 0), replicas)
        one["spec"]["replicas"] = replicas
        self.hands.edit(REPLICA_SETS, one, change)

    def _say_scaled(self, name: str, before: int, after: int) -> None:
        if before == after:
            return
        direction = "up" if after > before else "down"
        said = f"Scaled {direction} replica set {name} from {before} to {after}"
        self.hands.events.say("deployment-controller", self.item, "ScalingReplicaSet", said)

    def _set_revision(self, new: Object, revision: int) -> None:
        def change(item: Object) -> Object:
            annotations = item["metadata"].setdefault("annotations", {})
            history = annotations.get("deployment.kubernetes.io/revision-history")
            before = annotations.get(REVISION, "")
            annotations[REVISION] = str(revision)
            if before:
                annotations["deployment.kubernetes.io/revision-history"] = ",".join(
                    filter(None, [history, before])
                )
            return item

        self.hands.edit(REPLICA_SETS, new, change)

        def tell(item: Object) -> Object:
            item["metadata"].setdefault("annotations", {})[REVISION] = str(revision)
            return item

        self._write_status(tell)

    def _tell(self, new: Object | None) -> None:
        now = self.hands.clock.stamp()
        statuses = [one["status"] for one in self.sets]

        def total(key: str) -> int:
            return sum(status.get(key, 0) for status in statuses)

        available = total("availableReplicas")
        before = self.item["status"]
        status = {"observedGeneration": self.metadata["generation"]} | counted(
            replicas=total("replicas"),
            updatedReplicas=new["status"].get("replicas", 0) if new else 0,
            readyReplicas=total("readyReplicas"),
            availableReplicas=available,
            unavailableReplicas=max(0, self._size(self.sets) - available),
        )
        status["terminatingReplicas"] = total("terminatingReplicas")
        enough = available >= self.wanted - self.most_unavailable
        words = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if not enough:
            words = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        had = next((one["status"] for one in self.conditions if one["type"] == "Available"), "")
        if had != words[0]:
            set_condition(
                self.conditions,
                "Available",
                words[0],
                now,
                reason=words[1],
                message=words[2],
                lastUpdateTime=now,
            )
        if new is not None and not self.spec.get("paused"):
            self._tell_progress(new, before, status, now)
        self._tell_failure()
        status["conditions"] = self.conditions
        if status != before:
            self.hands.set_status(DEPLOYMENTS, self.item, status)

    def _tell_progress(self, new: Object, before: Object, status: Object, now: str) -> None:
        name = f'ReplicaSet "{new["metadata"]["name"]}"'
        found = next((one for one in self.conditions if one["type"] == "Progressing"), None)
        updated = status.get("updatedReplicas", 0)
        is_done = updated == status.get("replicas", 0) == status.get("availableReplicas", 0) == self.wanted
        moved = updated > before.get("updatedReplicas", 0) or any(
            status.get(key, 0) > before.get(key, 0) for key in ("readyReplicas", "availableReplicas")
        )
        words: tuple[str, str, str] | None = None
        if is_done:
            if found and found["reason"] == "NewReplicaSetAvailable":
                return
            words = ("True", "NewReplicaSetAvailable", f"{name} has successfully progressed.")
        elif moved and before.get("observedGeneration"):
            words = ("True", "ReplicaSetUpdated", f"{name} is progressing.")
        elif found and found["reason"] == "DeploymentPaused":
            words = ("Unknown", "DeploymentResumed", "Deployment is resumed")
        elif found is None or not before.get("observedGeneration"):
            words = ("True", "ReplicaSetUpdated", f"{name} is progressing.")
        elif found["reason"] not in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable"):
            since = self.hands.clock.seconds_of(found["lastUpdateTime"])
            if self.hands.clock.seconds > since + self.spec.get("progressDeadlineSeconds", 600):
                words = ("False", "ProgressDeadlineExceeded", f"{name} has timed out progressing.")
        elif found["reason"] == "NewReplicaSetAvailable":
            words = ("True", "ReplicaSetUpdated", f"{name} is progressing.")
        if words:
            set_condition(
                self.conditions,
                "Progressing",
                words[0],
                now,
                reason=words[1],
                message=words[2],
                lastUpdateTime=now,
            )

    def _tell_failure(self) -> None:
        failures = [
            one
            for status in (each["status"] for each in self.sets)
            for one in status.get("conditions") or ()
            if one["type"] == "ReplicaFailure" and one["status"] == "True"
        ]
        self.conditions[:] = [one for one in self.conditions if one["type"] != "ReplicaFailure"]
        if failures:
            self.conditions.append(failures[0] | {"lastUpdateTime": failures[0]["lastTransitionTime"]})
