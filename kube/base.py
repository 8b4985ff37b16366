"""The interface of a cluster's API, in our words.

Objects are JSON as the API has them. Every method has a time limit of its own, waits for no controller,
repeats nothing by itself, and raises errors of `kube.errors` only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from kube.resources import Ref, Resource
from kube.rules import Rules

Object = dict[str, Any]
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class CollectedItems(Generic[Kept]):
    items: tuple[Kept, ...]
    """What was kept of each."""
    version: str
    """A watch goes on from here."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    items: tuple[Object, ...]
    """All of them, with `apiVersion` and `kind`, whatever the server leaves out."""
    version: str
    """A watch goes on from here."""


class ChangeType(StrEnum):
    """The kind of change of an object.

    One that leaves a watch's selector is DELETED for it: as it was before, under the version of the change.
    """

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing: only `version` is newer."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    type: ChangeType
    item: Object
    version: str
    """Another watch goes on from here."""


class Propagation(StrEnum):
    """The fate of the objects that a deleted object owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    """It goes first; the object is there until then."""
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class Permission:
    allowed: bool
    reason: str = ""


JsonPatch = Sequence[Mapping[str, Any]]
"""RFC 6902: what `test` demands holds, or nothing is done (Invalid)."""
MergePatch = Mapping[str, Any]
"""RFC 7396: lists are replaced as a whole, null removes."""


class KubernetesClient(Protocol):
    """A cluster, accessed as one of its users."""

    def get(self, ref: Ref) -> Object:
        """Raises NotFound."""

    def list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> ObjectList:
        """All that match the selectors, as of one moment; an empty namespace is all of them.

        A namespace that is not there has none, and that is no error. Raises NotServed.
        """

    def gather(
        self,
        resource: Resource,
        *,
        keep: Callable[[Object], Kept],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> CollectedItems[Kept]:
        """List with what `keep` makes of each object: never more than a page of whole ones in memory.

        `keep` may be called for pages that are thrown away, when the list has to begin anew.
        """

    def watch(
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        for_seconds: float = 60.0,
    ) -> AbstractContextManager[Iterator[ObjectChange]]:
        """Changes later than `since` (of a Listing or a Change), as they come; ends after that time, or
        earlier.

        An end says nothing: go on from the last version. Raises HistoryLost, which means: list anew.
        """

    def create(self, item: Object, *, dry_run: bool = False) -> Object:
        """Raises AlreadyExists: under a name that is ours, look whether it is what we wanted."""

    def apply(
        self,
        item: Object,
        *,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
        manager: str = "",
    ) -> Object:
        """Server-side apply under our field manager, or `manager`: the object has these fields, and what that
        manager no longer names goes.

        A missing object is made, whatever `metadata.resourceVersion` says; `metadata.uid` guards against that
        (Changed, or Invalid). Raises OwnedByOthers unless `force`.
        """

    def patch(
        self, ref: Ref, patch: JsonPatch | MergePatch, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        """A list is a JSON patch, a mapping a merge patch. Raises NotFound, ObjectChanged (by a
        resourceVersion in it).
        """

    def delete(
        self,
        ref: Ref,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
        dry_run: bool = False,
    ) -> None:
        """Begin its deletion; `get` shows when it is gone. Raises NotFound, and ObjectChanged when it is
        another one.
        """

    def evict(
        self, pod: Ref, *, uid: str = "", grace_seconds: int | None = None, dry_run: bool = False
    ) -> None:
        """Delete a pod if its disruption budget allows. Raises EvictionRefused, NotFound, ObjectChanged.

        The server looks at the `uid` last: one that is wrong has spent the budget all the same.
        """

    def logs(
        self,
        pod: Ref,
        *,
        container: str = "",
        lines: int,
        previous: bool = False,
        limit_bytes: int = 1_000_000,
    ) -> str:
        """The end of what it wrote; `previous`: before its last restart. Raises NotFound, InvalidObject,
        ServerFault.
        """

    def may(
        self, verb: str, resource: Resource, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Permission:
        """Whether we would be allowed to."""

    def rules(self, namespace: str) -> Rules:
        """Return our rights in a namespace, by one request. It need not exist: then our rights in all."""

    def serves(self, resource: Resource) -> bool:
        """Whether the cluster knows this kind of object, in this version."""

    def version(self) -> str:
        """Return the version of its API server: `v1.36.2`."""

    def close(self) -> None:
        """Give its connections back."""
