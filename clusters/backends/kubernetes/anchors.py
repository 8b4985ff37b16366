"""Anchors keep the fence of a deployment in its cluster, beyond the life of its objects.

A ConfigMap of the deployment's name, its anchor, holds the highest fence that came and owns all that is
applied. On removal a tombstone takes its place, and the anchor goes with all that it owns: what a writer who
was paused puts there later belongs to an owner that is gone, and the garbage collector takes it away.
"""

import time
from contextlib import suppress

from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    RetryLater,
    StaleDeploymentFence,
)
from clusters.backends.kubernetes.manifests import DEPLOYMENT, FENCE, MANAGED_BY, fence_of, fence_text
from common.fence import Fence
from kube.base import KubernetesClient, Object, Propagation
from kube.errors import AlreadyExists, NotFound, ObjectChanged
from kube.resources import CONFIG_MAPS, Ref

TOMBSTONE_LASTS_SECONDS = 86_400.0
"""Far longer than any lease of the reconcile kernel."""
ATTEMPTS = 5
_ROLE = "slipway.io/role"
_REMOVED_AT = "slipway.io/removed-at"


def owner_of(anchor: Object) -> Object:
    """Return the reference by which objects go with the anchor."""
    named = {key: anchor["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": "v1", "kind": "ConfigMap", **named, "blockOwnerDeletion": True}


class OwnerAnchors:
    """The objects that own those of each deployment of one namespace."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def raise_to(self, deployment: str, fence: Fence) -> Object:
        """The anchor, which has this fence now. Raises StaleDeploymentFence, RetryLater, and CannotRun for a
        taken name.
        """
        for _ in range(ATTEMPTS):
            self._check_tombstone(deployment, fence)
            anchor = self.of(deployment)
            try:
                if anchor is None:
                    anchor = self._client.create(self._document(deployment, "anchor", fence))
                    # It may have been removed between the two looks: the tombstone was there first then.
                    try:
                        self._check_tombstone(deployment, fence)
                    except StaleDeploymentFence:
                        self._delete(anchor)
                        raise
                    return anchor
                check_fence(anchor, fence)
                if "deletionTimestamp" in anchor["metadata"]:
                    raise RetryLater(f"What {deployment} was before is still being removed.")
                if fence_of(anchor) == fence:
                    return anchor
                return self._write(anchor, fence)
            except (AlreadyExists, ObjectChanged, NotFound):
                continue
        raise _busy(deployment)

    def remove(self, deployment: str, fence: Fence) -> None:
        """The anchor goes, and all that it owns before it. Never was is no error. Raises
        StaleDeploymentFence.
        """
        for _ in range(ATTEMPTS):
            self._check_tombstone(deployment, fence)
            anchor = self.of(deployment)
            if anchor is not None:
                check_fence(anchor, fence)
            try:
                # First, and also for what never was: whoever wakes up late must find that it is over.
                self._bury(deployment, fence)
                if anchor is not None and "deletionTimestamp" not in anchor["metadata"]:
                    self._delete(anchor, version=anchor["metadata"]["resourceVersion"])
                return
            except (AlreadyExists, ObjectChanged, NotFound):
                continue
        raise _busy(deployment)

    def of(self, deployment: str) -> Object | None:
        return self._read(deployment)

    def tidy(self) -> None:
        """Anchors that came after their tombstone, from a request that nobody waited for any more; and
        tombstones that no writer can still have an older fence than."""
        found = self._client.list(
            CONFIG_MAPS, namespace=self._namespace, labels=f"{MANAGED_BY}=slipway,{_ROLE}"
        ).items
        tombstones = {one["metadata"]["name"]: one for one in found if _role_of(one) == "tombstone"}
        for anchor in found:
            tombstone = tombstones.get(_tombstone(anchor["metadata"]["name"]))
            if _role_of(anchor) == "anchor" and tombstone is not None and _is_after(tombstone, anchor):
                self._delete_if_unchanged(anchor)
        for tombstone in tombstones.values():
            removed_at = (tombstone["metadata"].get("annotations") or {}).get(_REMOVED_AT, "")
            if removed_at.isdecimal() and time.time() - int(removed_at) > TOMBSTONE_LASTS_SECONDS:
                self._delete_if_unchanged(tombstone)

    def _delete_if_unchanged(self, document: Object) -> None:
        with suppress(ObjectChanged, NotFound):
            self._delete(document, version=document["metadata"]["resourceVersion"])

    def _bury(self, deployment: str, fence: Fence) -> None:
        tombstone = self._read(_tombstone(deployment))
        if tombstone is None:
            self._client.create(self._document(_tombstone(deployment), "tombstone", fence))
        elif fence_of(tombstone) != fence:
            self._write(tombstone, fence)

    def _check_tombstone(self, deployment: str, fence: Fence) -> None:
        if (tombstone := self._read(_tombstone(deployment))) is not None:
            check_fence(tombstone, fence)

    def _read(self, name: str) -> Object | None:
        try:
            found = self._client.get(Ref(CONFIG_MAPS, name, self._namespace))
        except NotFound:
            return None
        check_ours(found)
        return found

    def _write(self, document: Object, fence: Fence) -> Object:
        metadata = document["metadata"]
        ref = Ref(CONFIG_MAPS, metadata["name"], self._namespace)
        change = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {FENCE: fence_text(fence)},
            }
        }
        return self._client.patch(ref, change)

    def _delete(self, document: Object, *, version: str = "") -> None:
        metadata = document["metadata"]
        ref = Ref(CONFIG_MAPS, metadata["name"], self._namespace)
        self._client.delete(ref, uid=metadata["uid"], version=version, propagation=Propagation.FOREGROUND)

    def _document(self, name: str, role: str, fence: Fence) -> Object:
        annotations = {FENCE: fence_text(fence)}
        if role == "tombstone":
            annotations[_REMOVED_AT] = str(int(time.time()))
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {MANAGED_BY: "slipway", _ROLE: role, DEPLOYMENT: name.removesuffix(_SUFFIX)},
                "annotations": annotations,
            },
        }


_SUFFIX = ".removed"
"""No name of a deployment has a dot."""


def _role_of(document: Object) -> str:
    return str((document["metadata"].get("labels") or {}).get(_ROLE, ""))


def _is_after(tombstone: Object, anchor: Object) -> bool:
    removed, written = fence_of(tombstone), fence_of(anchor)
    return removed is not None and written is not None and written < removed


def _tombstone(deployment: str) -> str:
    return f"{deployment}{_SUFFIX}"


def check_fence(document: Object, fence: Fence) -> None:
    """Raises StaleDeploymentFence when a later writer made it."""
    before = fence_of(document)
    if before is not None and fence < before:
        name = document["metadata"]["name"]
        raise StaleDeploymentFence(f"{name} was set by {before}, which is later than {fence}.")


def check_ours(document: Object) -> None:
    """Raises CannotRun for what somebody else made: it is never changed."""
    metadata = document["metadata"]
    if (metadata.get("labels") or {}).get(MANAGED_BY) != "slipway":
        raise CannotRun(
            f"The namespace {metadata.get('namespace')} has a {document['kind']} {metadata['name']} that is "
            "not Slipway's. Rename or delete it, or give Slipway a namespace of its own."
        )


def _busy(deployment: str) -> ClusterUnreachable:
    return ClusterUnreachable(f"{deployment} is changed by others faster than it can be written.")
