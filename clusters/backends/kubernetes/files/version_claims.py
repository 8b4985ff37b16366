"""A volume claim for each version, which stays while the version is needed or was asked for of late.

Its name has the version's digest: whoever makes it late makes the same. Taking it away is guarded by the
resourceVersion that was looked at, and each use changes that.
"""

import time
from collections.abc import Callable, Collection

from clusters.backends.base import CannotRun, DeploymentSpec, FilesPending
from clusters.backends.kubernetes.anchors import check_ours
from clusters.backends.kubernetes.files.base import Document
from clusters.backends.kubernetes.manifests import MANAGED_BY, VERSION
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, InvalidObject, NotFound, ObjectChanged
from kube.resources import VOLUME_CLAIMS, Ref

ROLE = "slipway.io/role"
DIGEST = "slipway.io/digest"
ASKED_AT = "slipway.io/asked-at"
LABELS = {MANAGED_BY: "slipway", ROLE: "model-files"}
ASKED_EVERY_SECONDS = 600.0
UNUSED_FOR_SECONDS = 3_600.0
"""So long after it was last asked for it stays, whatever becomes of the version."""


class VersionClaims:
    def __init__(self, client: KubernetesClient) -> None:
        self._client = client

    def ensure(self, spec: DeploymentSpec, namespace: str, make: Callable[[], Document]) -> Object:
        """Return the claim, made where it is missing. Raises FilesPending, CannotRun, KubeError."""
        ref = Ref(VOLUME_CLAIMS, name_of(spec), namespace)
        for _ in range(2):
            try:
                found = self._client.get(ref)
            except NotFound:
                document = make()
                document["metadata"] = {
                    "name": ref.name,
                    "namespace": namespace,
                    "labels": LABELS,
                    "annotations": {
                        DIGEST: spec.version.digest,
                        VERSION: spec.version.label,
                        ASKED_AT: str(int(time.time())),
                    },
                }
                try:
                    return self._client.create(document)
                except AlreadyExists:
                    continue
            check_ours(found)
            if annotations_of(found).get(DIGEST) != spec.version.digest:
                raise CannotRun(f"The volume claim {ref.name} is of another version. Delete it.")
            if "deletionTimestamp" in found["metadata"]:
                raise FilesPending(f"The volume claim {ref.name} of before is still being removed.")
            self._note_use(found)
            return found
        raise FilesPending(f"The volume claim {ref.name} is made and removed by others at this moment.")

    def note(self, item: Object, annotations: dict[str, str]) -> None:
        metadata = item["metadata"]
        ref = Ref(VOLUME_CLAIMS, metadata["name"], metadata["namespace"])
        change = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
        try:
            item["metadata"] = self._client.patch(ref, change)["metadata"]
        except (NotFound, ObjectChanged, InvalidObject):
            raise FilesPending(f"The volume claim {ref.name} was removed meanwhile.") from None

    def remove_unused(self, namespace: str, needed: Collection[str]) -> None:
        labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
        for one in self._client.list(VOLUME_CLAIMS, namespace=namespace, labels=labels).items:
            metadata = one["metadata"]
            is_recent = time.time() - _asked_at(one) < UNUSED_FOR_SECONDS
            if annotations_of(one).get(DIGEST) in needed or is_recent or "deletionTimestamp" in metadata:
                continue
            ref = Ref(VOLUME_CLAIMS, metadata["name"], metadata["namespace"])
            try:
                self._client.delete(ref, uid=metadata["uid"], version=metadata["resourceVersion"])
            except (NotFound, ObjectChanged):
                continue  # somebody asked for it at this moment

    def _note_use(self, item: Object) -> None:
        if time.time() - _asked_at(item) > ASKED_EVERY_SECONDS:
            self.note(item, {ASKED_AT: str(int(time.time()))})


def name_of(spec: DeploymentSpec) -> str:
    return f"slipway-files-{spec.version.digest[:20]}"


def annotations_of(item: Object) -> dict[str, str]:
    return item["metadata"].get("annotations") or {}


def owned_by(item: Object) -> Document:
    """A reference for what goes with it."""
    metadata = item["metadata"]
    names = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"]} | names


def size_of(spec: DeploymentSpec) -> int:
    return sum({file.sha256: file.size_bytes for file in spec.version.files}.values())


def _asked_at(item: Object) -> float:
    text = annotations_of(item).get(ASKED_AT, "")
    return float(text) if text.isdecimal() else 0.0
