"""Creating and changing objects: one way through which every POST, PUT, patch and apply goes."""

import random
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from kube.fake.admission import Admission
from kube.fake.clock import SimulatedClock
from kube.fake.defaults import Object, normalised, zero
from kube.fake.kinds import ObjectKind
from kube.fake.metadata_rules import SERVER_MADE
from kube.fake.openapi import custom_defaults, custom_faults
from kube.fake.ownership import (
    UPDATE,
    Manager,
    Managers,
    after_update,
    entries_of,
    managers_of,
    not_written,
)
from kube.fake.refusals import (
    already_exists,
    bad_request,
    conflict,
    internal,
    invalid,
    modified,
    not_found,
    wrong_value,
)
from kube.fake.storage import ObjectStorage, copied
from kube.fake.validation import faults_of

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MOST_STORED_BYTES = 1_572_864
Change = Callable[[Object], Object]


@dataclass(frozen=True)
class WriteOptions:
    """Who writes, and how."""

    manager: str
    is_dry_run: bool = False
    subresource: str = ""
    is_put: bool = False


@dataclass
class WriteResult:
    item: Object
    is_new: bool = False
    warnings: list[str] = field(default_factory=list)


class Writer:
    """Also the door of the fake's own controllers."""

    def __init__(
        self, storage: ObjectStorage, clock: SimulatedClock, admission: Admission, seed: int
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.admission = admission
        self._random = random.Random(seed)  # noqa: S311 - names of objects

    def suffix(self, letters: int = 5) -> str:
        return "".join(self._random.choices(ALPHABET, k=letters))

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def create(
        self, kind: ObjectKind, namespace: str, item: Object, by: WriteOptions, owners: Managers | None = None
    ) -> WriteResult:
        """Raises RequestRefused. `owners` of what is applied; others own what they create."""
        metadata = item["metadata"] = dict(item.get("metadata") or {})
        check_namespace(kind, namespace, metadata)
        self.admission.check_namespace(kind, namespace, metadata.get("name") or "")
        if prefix := "" if metadata.get("name") else metadata.get("generateName"):
            metadata["name"] = prefix[:58] + self.suffix()
        name = metadata.get("name", "")
        wished_version = metadata.pop("resourceVersion", None)
        if owners is None and wished_version not in (None, ""):
            raise internal("resourceVersion should not be set on objects to be created")
        for key in (*SERVER_MADE, "managedFields"):
            metadata.pop(key, None)
        if kind.is_namespaced:
            metadata["namespace"] = namespace
        metadata |= {"uid": self.uid(), "creationTimestamp": self.clock.stamp()}
        if "status" in kind.subresources:
            item.pop("status", None)
        if kind.has_generation or kind.is_custom:
            metadata["generation"] = 1
        item = self._completed(kind, item)
        if owners is None:
            manager = Manager(by.manager, UPDATE, kind.api_version, by.subresource)
            stamp, hidden = self.clock.stamp(), not_written(kind, "")
            owners = after_update({}, zero(kind), item, kind.shape, manager=manager, now=stamp, hidden=hidden)
        self.admission.complete(kind, item, is_new=True)
        self._validate(kind, item, None)
        with self.storage.lock:
            self.admission.check(kind, item, None)
            existing = self.storage.get(kind, namespace, name)
            if existing is not None:
                raise already_exists(kind, name, is_going="deletionTimestamp" in existing["metadata"])
            if owners:
                item["metadata"]["managedFields"] = entries_of(owners)
            self._check_size(item)
            if by.is_dry_run:
                if wished_version:
                    item["metadata"]["resourceVersion"] = wished_version
                return WriteResult(item, is_new=True)
            return WriteResult(self.storage.put(kind, item), is_new=True)

    def update(
        self, kind: ObjectKind, namespace: str, name: str, change: Change, by: WriteOptions
    ) -> WriteResult:
        """`change` gets a copy of what is stored. Raises RequestRefused, and what `change` raises."""
        with self.storage.lock:
            old = self.storage.get(kind, namespace, name)
            if old is None:
                raise not_found(kind, name)
            new = change(copied(old))
            owners = new.pop("_owners", None)
            return self.replace(kind, namespace, old, new, by, owners)

    def replace(
        self,
        kind: ObjectKind,
        namespace: str,
        old: Object,
        new: Object,
        by: WriteOptions,
        owners: Managers | None = None,
    ) -> WriteResult:
        metadata, before = new.setdefault("metadata", {}), old["metadata"]
        name = before["name"]
        if metadata.get("name") not in (None, "", name):
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        check_namespace(kind, namespace, metadata)
        self._check_versions(kind, metadata, before, by)
        reset = self._take_over(kind, old, new, by)
        new = self._completed(kind, new)
        if not by.subresource:
            self.admission.complete(kind, new, is_new=False)
        self._validate(kind, new, old)
        self.admission.check(kind, new, old)
        hidden = not_written(kind, by.subresource)
        if owners is None:
            # What the request says of them counts, as in a list that somebody has corrected.
            live = {} if reset else managers_of(metadata)
            is_tracked = bool(before.get("managedFields")) and not reset
            manager = Manager(by.manager, UPDATE, kind.api_version, by.subresource)
            owners = live
            if is_tracked:
                owners = after_update(
                    live, old, new, kind.shape, manager=manager, now=self.clock.stamp(), hidden=hidden
                )
        if by.subresource != "status":
            self._set_generation(kind, old, new)
        _set_owners(new, owners)
        if _same(old, new):
            return WriteResult(old)
        self._check_size(new)
        new["metadata"]["resourceVersion"] = before["resourceVersion"]
        if by.is_dry_run:
            return WriteResult(new)
        after = new["metadata"]
        is_over = before.get("deletionTimestamp") and not after.get("deletionGracePeriodSeconds")
        if is_over and not after.get("finalizers") and kind.kind != "Namespace":
            self.storage.remove(kind, old)
            return WriteResult(new)
        return WriteResult(self.storage.put(kind, new))

    def _check_versions(self, kind: ObjectKind, metadata: Object, before: Object, by: WriteOptions) -> None:
        version = metadata.get("resourceVersion") or ""
        name = before["name"]
        if version and not re.fullmatch(r"\d+", version):
            raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if not version and by.is_put and (kind.demands_resource_version or kind.is_custom):
            cause = wrong_value("metadata.resourceVersion", "0", "must be specified for an update")
            raise invalid(kind, name, [cause], by_plural=True)
        if by.is_put and metadata.get("uid") not in (None, "", before["uid"]):
            place = f"/registry/{kind.plural}/{before.get('namespace', '')}/{name}".replace("//", "/")
            raise conflict(
                kind,
                name,
                f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
                f"{before['uid']}",
            )
        if version not in ("", "0", before["resourceVersion"]):
            raise modified(kind, name)

    def _take_over(self, kind: ObjectKind, old: Object, new: Object, by: WriteOptions) -> bool:
        """Keep what the server alone writes, or another door does. True when managedFields are reset."""
        metadata, before = new["metadata"], old["metadata"]
        metadata["name"] = before["name"]
        if kind.is_namespaced:
            metadata["namespace"] = before["namespace"]
        for key in (*SERVER_MADE, "generateName"):
            metadata.pop(key, None)
            if key in before:
                metadata[key] = before[key]
        metadata.setdefault("uid", before["uid"])
        listed = metadata.pop("managedFields", None)
        is_reset = listed is not None and not any(entry.get("manager") for entry in listed)
        if not is_reset and "managedFields" in before:
            metadata["managedFields"] = listed or before["managedFields"]
        if by.subresource == "status":
            for key in [key for key in new if key not in ("status", "metadata", "kind", "apiVersion")]:
                del new[key]
            new |= {key: one for key, one in old.items() if key not in ("status", "metadata")}
            for key in ("labels", "annotations", "finalizers", "ownerReferences"):
                if kind.is_custom or key not in kind.status_keeps:
                    metadata.pop(key, None)
                    if key in before:
                        metadata[key] = before[key]
        elif "status" in kind.subresources and by.subresource != "internal":
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        return is_reset

    def _completed(self, kind: ObjectKind, item: Object) -> Object:
        item = custom_defaults(kind, item) if kind.is_custom else item
        return normalised(kind, item)

    def _validate(self, kind: ObjectKind, item: Object, old: Object | None) -> None:
        faults = faults_of(kind, item, old)
        if kind.is_custom and not faults:
            faults = custom_faults(kind, item, old)
        if faults:
            raise invalid(kind, item["metadata"].get("name", ""), faults)

    def _set_generation(self, kind: ObjectKind, old: Object, new: Object) -> None:
        if "generation" not in old["metadata"]:
            return
        outside = {"metadata", "status"} if kind.is_custom else {"metadata", "status", "kind", "apiVersion"}
        changed = {k: v for k, v in old.items() if k not in outside} != {
            k: v for k, v in new.items() if k not in outside
        }
        if kind.kind == "Deployment":
            changed = changed or old["metadata"].get("annotations") != new["metadata"].get("annotations")
        if changed:
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1

    def _check_size(self, item: Object) -> None:
        if len(str(item)) > MOST_STORED_BYTES:
            raise internal("etcdserver: request is too large")


def check_namespace(kind: ObjectKind, namespace: str, metadata: Object) -> None:
    if kind.is_namespaced and metadata.get("namespace") not in (None, "", namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _set_owners(item: Object, owners: Managers) -> None:
    item["metadata"].pop("managedFields", None)
    if owners:
        item["metadata"]["managedFields"] = entries_of(owners)


def _same(old: Object, new: Object) -> bool:
    """But for the time of who owns what."""

    def plain(item: Object) -> Object:
        metadata = {
            k: v for k, v in item["metadata"].items() if k not in ("managedFields", "resourceVersion")
        }
        owned = [
            {k: v for k, v in entry.items() if k != "time"}
            for entry in item["metadata"].get("managedFields", ())
        ]
        return item | {"metadata": metadata, "owned": sorted(owned, key=str)}

    return plain(old) == plain(new)
