"""Garbage collection: dependents, contents of namespaces, pods of nodes that are no more."""

from kube.fake.controllers.controller_tools import ControllerTools, Object, set_condition
from kube.fake.deleting import FOREGROUND, ORPHAN
from kube.fake.kinds import ObjectKind

NAMESPACE_SECONDS = 5.5
"""Until the namespace controller looks at one that ends, and then again."""


def collect(hands: ControllerTools) -> None:
    storage = hands.server.storage
    kinds = {kind.resource: kind for kind in hands.server.kinds.values()}
    held = storage.held()
    alive = {item["metadata"]["uid"]: item for _, item in held}
    for key, item in held:
        references = item["metadata"].get("ownerReferences") or ()
        if references and not any(one["uid"] in alive for one in references):
            if "deletionTimestamp" not in item["metadata"]:
                hands.delete(key.resource, item, propagationPolicy="Background")
            continue
        finalizers = item["metadata"].get("finalizers") or ()
        if "deletionTimestamp" not in item["metadata"]:
            continue
        dependents = [
            (other.resource, one)
            for other, one in held
            if any(
                each["uid"] == item["metadata"]["uid"]
                for each in one["metadata"].get("ownerReferences") or ()
            )
        ]
        if FOREGROUND in finalizers:
            _foreground(hands, kinds[key.resource], item, dependents)
        elif ORPHAN in finalizers:
            for resource, one in dependents:
                _disown(hands, resource, one, item)
            _release(hands, key.resource, item, ORPHAN)


def _foreground(
    hands: ControllerTools, kind: ObjectKind, item: Object, dependents: list[tuple[str, Object]]
) -> None:
    for resource, one in dependents:
        if "deletionTimestamp" in one["metadata"]:
            continue
        # A pod has nothing below it: its deletion is a plain one.
        if resource == "pods":
            hands.delete(resource, one)
        else:
            hands.delete(resource, one, propagationPolicy="Foreground")
    if not dependents:
        _release(hands, kind.resource, item, FOREGROUND)


def _disown(hands: ControllerTools, resource: str, one: Object, owner: Object) -> None:
    uid = owner["metadata"]["uid"]
    left = [each for each in one["metadata"]["ownerReferences"] if each["uid"] != uid]
    hands.change(resource, one, metadata_ownerReferences=left or None)


def _release(hands: ControllerTools, resource: str, item: Object, finalizer: str) -> None:
    left = [one for one in item["metadata"]["finalizers"] if one != finalizer]
    hands.change(resource, item, metadata_finalizers=left or None)


class Namespaces:
    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def step(self, hands: ControllerTools) -> None:
        for item in hands.all("namespaces"):
            metadata = item["metadata"]
            if "deletionTimestamp" not in metadata:
                continue
            due = self._next.setdefault(
                metadata["uid"], hands.clock.seconds_of(metadata["deletionTimestamp"]) + NAMESPACE_SECONDS
            )
            if hands.clock.seconds >= due:
                self._next[metadata["uid"]] = hands.clock.seconds + NAMESPACE_SECONDS
                _empty(hands, item)


def _empty(hands: ControllerTools, namespace: Object) -> None:
    name = namespace["metadata"]["name"]
    for key, item in hands.server.storage.everything():
        if key.namespace == name and "deletionTimestamp" not in item["metadata"]:
            hands.delete(key.resource, item, propagationPolicy="Background")
    left = [(key, item) for key, item in hands.server.storage.everything() if key.namespace == name]
    now = hands.clock.stamp()
    conditions = [dict(one) for one in namespace["status"].get("conditions") or ()]
    set_condition(
        conditions,
        "NamespaceDeletionDiscoveryFailure",
        "False",
        now,
        reason="ResourcesDiscovered",
        message="All resources successfully discovered",
    )
    set_condition(
        conditions,
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        now,
        reason="ParsedGroupVersions",
        message="All legacy kube types successfully parsed",
    )
    set_condition(
        conditions,
        "NamespaceDeletionContentFailure",
        "False",
        now,
        reason="ContentDeleted",
        message="All content successfully deleted, may be waiting on finalization",
    )
    _say_what_is_left(conditions, [(key.resource, item) for key, item in left], now)
    hands.set_status("namespaces", namespace, namespace["status"] | {"conditions": conditions})
    if not left:
        last = hands.get("namespaces", "", name)
        if last is not None:
            hands.server.storage.remove(hands.server.kind_of("namespaces"), last)


def _say_what_is_left(conditions: list[Object], left: list[tuple[str, Object]], now: str) -> None:
    resources = sorted({resource for resource, _ in left})
    words = []
    for one in resources:
        dot = "" if "." in one else "."
        words.append(f"{one}{dot} has {sum(each == one for each, _ in left)} resource instances")
    set_condition(
        conditions,
        "NamespaceContentRemaining",
        "True" if left else "False",
        now,
        reason="SomeResourcesRemain" if left else "ContentRemoved",
        message=f"Some resources are remaining: {', '.join(words)}"
        if left
        else "All content successfully removed",
    )
    finalizers = [one for _, item in left for one in item["metadata"].get("finalizers") or ()]
    held = [f"{one} in {finalizers.count(one)} resource instances" for one in sorted(set(finalizers))]
    set_condition(
        conditions,
        "NamespaceFinalizersRemaining",
        "True" if held else "False",
        now,
        reason="SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
        message=f"Some content in the namespace has finalizers remaining: {', '.join(held)}"
        if held
        else "All content-preserving finalizers finished",
    )
