"""Deletion: grace, finalizers, propagation, preconditions, and what goes when its owner goes."""

from collections.abc import Mapping
from typing import Any

from kube.fake.admission import Admission
from kube.fake.clock import SimulatedClock
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import not_found, precondition, success
from kube.fake.storage import ObjectStorage

Object = dict[str, Any]
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
FORCED_GRACE_SECONDS = 30


class Deleter:
    def __init__(self, storage: ObjectStorage, clock: SimulatedClock, admission: Admission) -> None:
        self.storage = storage
        self.clock = clock
        self.admission = admission

    def delete(
        self,
        kind: ObjectKind,
        namespace: str,
        name: str,
        options: Mapping[str, Any],
        *,
        is_dry_run: bool = False,
    ) -> tuple[Object, int]:
        """The answer and its status. Raises RequestRefused."""
        self.admission.check_deletion(kind, name)
        with self.storage.lock:
            item = self.storage.get(kind, namespace, name)
            if item is None:
                raise not_found(kind, name)
            check_preconditions(kind, item, options.get("preconditions") or {})
            policy = self._policy(kind, item, options)
            if is_dry_run:
                return success(kind, name, item["metadata"]["uid"]), 200
            if kind.kind == "Pod":
                return self._pod(kind, item, options, policy), 200
            if kind.kind == "Namespace":
                return self._namespace(kind, item), 200
            return self._any(kind, item, policy), 200

    def _policy(self, kind: ObjectKind, item: Object, options: Mapping[str, Any]) -> str:
        policy = options.get("propagationPolicy")
        if policy is None and options.get("orphanDependents") is not None:
            policy = "Orphan" if options["orphanDependents"] else "Background"
        if policy is None:
            if FOREGROUND in (item["metadata"].get("finalizers") or ()):
                return "Foreground"
            policy = "Orphan" if kind.orphans_by_default else "Background"
        return str(policy)

    def _any(self, kind: ObjectKind, item: Object, policy: str) -> Object:
        metadata = item["metadata"]
        wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        finalizers = [one for one in metadata.get("finalizers") or () if one not in (FOREGROUND, ORPHAN)]
        if wanted:
            finalizers.append(wanted)
        if not finalizers:
            self.storage.remove(kind, item)
            if kind.kind == "ServiceAccount":
                return item
            return success(kind, metadata["name"], metadata["uid"])
        if metadata.get("deletionTimestamp") and finalizers == metadata.get("finalizers"):
            return item
        metadata["finalizers"] = finalizers
        if not metadata.get("deletionTimestamp"):
            metadata |= {"deletionTimestamp": self.clock.stamp(), "deletionGracePeriodSeconds": 0}
            if "generation" in metadata:
                metadata["generation"] += 1
        return self.storage.put(kind, item)

    def _pod(self, kind: ObjectKind, item: Object, options: Mapping[str, Any], policy: str) -> Object:
        metadata, spec = item["metadata"], item["spec"]
        grace = options.get("gracePeriodSeconds")
        grace = spec.get("terminationGracePeriodSeconds", FORCED_GRACE_SECONDS) if grace is None else grace
        is_over = not spec.get("nodeName") or item["status"].get("phase") in ("Succeeded", "Failed")
        if is_over:
            grace = 0
        finalizers = list(metadata.get("finalizers") or ())
        for name, wanted in ((FOREGROUND, "Foreground"), (ORPHAN, "Orphan")):
            if policy == wanted and name not in finalizers and self._has_dependents(item):
                finalizers.append(name)
        if finalizers:
            metadata["finalizers"] = finalizers
        pending = metadata.get("deletionGracePeriodSeconds")
        if pending is not None and grace >= pending and not (grace == 0 and not finalizers):
            return item
        if pending is None:
            metadata["generation"] = metadata.get("generation", 1) + 1
        metadata["deletionGracePeriodSeconds"] = grace
        metadata["deletionTimestamp"] = self.clock.at(self.clock.seconds + grace)
        if grace == 0 and not finalizers:
            last = self.storage.put(kind, item) if pending else item
            self.storage.remove(kind, last)
            return last
        return self.storage.put(kind, item)

    def _has_dependents(self, owner: Object) -> bool:
        uid = owner["metadata"]["uid"]
        return any(
            reference["uid"] == uid
            for _, one in self.storage.held()
            for reference in one["metadata"].get("ownerReferences") or ()
        )

    def _namespace(self, kind: ObjectKind, item: Object) -> Object:
        if item["metadata"].get("deletionTimestamp"):
            return item
        item["metadata"]["deletionTimestamp"] = self.clock.stamp()
        item["status"] = (item.get("status") or {}) | {"phase": "Terminating"}
        return self.storage.put(kind, item)


def check_preconditions(kind: ObjectKind, item: Object, wanted: Mapping[str, Any]) -> None:
    metadata = item["metadata"]
    for key, what in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) not in (None, "", metadata[key]):
            raise precondition(kind, metadata["name"], what, wanted[key], metadata[key])
