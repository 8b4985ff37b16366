"""Reads and writes of controllers, through the same API as everybody's."""

import json
from collections.abc import Callable
from typing import Any

from kube.fake.refusals import RequestRefused
from kube.fake.server import FakeApiServer
from kube.fake.storage import ObjectKey
from kube.fake.writing import WriteOptions

Object = dict[str, Any]
CONTROLLER_MANAGER = "kube-controller-manager"
BY = WriteOptions(CONTROLLER_MANAGER)
BY_STATUS = WriteOptions(CONTROLLER_MANAGER, subresource="status")


class ControllerTools:
    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.clock = server.clock
        self.events = server.events

    def has(self, resource: str) -> bool:
        """The cluster knows the kind: not every one has every extension."""
        plural, _, group = resource.partition(".")
        return (group, plural) in self.server.kinds

    def look(self, resource: str, namespace: str = "") -> list[Object]:
        """Return the objects for reading only."""
        return self.server.storage.look(self.server.kind_of(resource), namespace)

    def all(self, resource: str, namespace: str = "") -> list[Object]:
        return self.server.storage.items(self.server.kind_of(resource), namespace)

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        return self.server.storage.get(self.server.kind_of(resource), namespace, name)

    def peek(self, resource: str, namespace: str, name: str) -> Object | None:
        """Return the object for reading only."""
        return self.server.storage.peek(ObjectKey(resource, namespace, name))

    def create(self, resource: str, item: Object) -> Object:
        """Raises RequestRefused."""
        namespace = item["metadata"].get("namespace", "")
        return self.server.writer.create(self.server.kind_of(resource), namespace, item, BY).item

    def change(self, resource: str, item: Object, **fields: Any) -> Object:
        """Change the object as it is now: `spec_replicas=3` sets spec.replicas, None removes."""

        def change(now: Object) -> Object:
            for path, value in fields.items():
                target = now
                *parents, last = path.split("_", 1)
                for parent in parents:
                    target = target.setdefault(parent, {})
                if value is None:
                    target.pop(last, None)
                else:
                    target[last] = value
            return now

        return self.edit(resource, item, change, BY)

    def set_status(self, resource: str, item: Object, status: Object) -> None:
        """The whole of it."""

        def change(now: Object) -> Object:
            now["status"] = json.loads(json.dumps(status))
            return now

        self.edit(resource, item, change, BY_STATUS)

    def disrupt(self, pod: Object, reason: str, message: str) -> None:
        """Write why somebody is about to delete a pod."""
        current = self.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if current is None:
            return
        conditions = [dict(one) for one in current["status"].get("conditions") or ()]
        now = self.clock.stamp()
        set_condition(conditions, "DisruptionTarget", "True", now, reason=reason, message=message)
        conditions[-1]["observedGeneration"] = current["metadata"].get("generation", 1)
        self.set_status("pods", current, current["status"] | {"conditions": conditions})

    def edit(
        self, resource: str, item: Object, change: Callable[[Object], Object], by: WriteOptions = BY
    ) -> Object:
        metadata = item["metadata"]
        kind = self.server.kind_of(resource)
        try:
            return self.server.writer.update(
                kind, metadata.get("namespace", ""), metadata["name"], change, by
            ).item
        except RequestRefused as refused:
            if refused.reason != "NotFound":
                raise
            return item

    def delete(self, resource: str, item: Object, **options: Any) -> None:
        metadata = item["metadata"]
        try:
            self.server.deleter.delete(
                self.server.kind_of(resource), metadata.get("namespace", ""), metadata["name"], options
            )
        except RequestRefused as refused:
            if refused.reason != "NotFound":
                raise


def is_owned_by(item: Object, owner: Object) -> bool:
    reference = controller_of(item)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def controller_of(item: Object) -> Object | None:
    found = (one for one in item["metadata"].get("ownerReferences") or () if one.get("controller"))
    return next(found, None)


def reference_to(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_active(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in (
        "Succeeded",
        "Failed",
    )


def counted(**counts: int) -> Object:
    """Counts that are zero are left out."""
    return {name: count for name, count in counts.items() if count}


def set_condition(
    conditions: list[Object], kind: str, status: str, now: str, *, reason: str = "", **more: str
) -> None:
    """Set a condition; lastTransitionTime changes with the status alone."""
    found = next((one for one in conditions if one["type"] == kind), None)
    if found is None:
        found = {"type": kind}
        conditions.append(found)
    if found.get("status") != status:
        found |= {"status": status, "lastTransitionTime": now}
    found |= {"reason": reason} if reason else {}
    found |= more
