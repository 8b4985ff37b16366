"""Who owns which field of an object: `metadata.managedFields`, and what each kind of write does to it.

Follows apimachinery's managedfields and structured-merge-diff's Updater.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kube.fake.fields import (
    NOTHING,
    Fields,
    Path,
    compare,
    decoded,
    encoded,
    fields_of,
    with_named_parents,
    without,
    written,
)
from kube.fake.kinds import ObjectKind
from kube.fake.merging import merged
from kube.fake.schema import FieldSchema

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
NEVER_OWNED = {
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        )
    ),
}


class Manager(NamedTuple):
    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        """Return the manager as a conflict names it."""
        through = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = f" using {self.api_version}" if self.operation == UPDATE else ""
        return f'"{self.name}"{through}{using}'


@dataclass(frozen=True)
class FieldOwnership:
    fields: Fields
    time: str


Managers = dict[Manager, FieldOwnership]


class FieldConflict(Exception):
    """Other managers own what an apply would change."""

    def __init__(self, conflicts: list[tuple[Manager, Path]]) -> None:
        super().__init__()
        self.conflicts = conflicts


def managers_of(metadata: Mapping[str, Any]) -> Managers:
    found: Managers = {}
    for entry in metadata.get("managedFields") or ():
        if not entry.get("manager"):
            continue
        manager = Manager(
            entry["manager"], entry["operation"], entry.get("apiVersion", ""), entry.get("subresource", "")
        )
        found[manager] = FieldOwnership(
            frozenset(decoded(entry.get("fieldsV1") or {})), entry.get("time", "")
        )
    return found


def entries_of(managers: Managers) -> list[dict[str, Any]]:
    """Applies first, then the oldest."""
    order = sorted(managers, key=lambda one: (one.operation, managers[one].time, one))
    entries = []
    for one in order:
        entry: dict[str, Any] = {
            "manager": one.name,
            "operation": one.operation,
            "apiVersion": one.api_version,
        }
        if managers[one].time:
            entry["time"] = managers[one].time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": encoded(managers[one].fields)}
        if one.subresource:
            entry["subresource"] = one.subresource
        entries.append(entry)
    return entries


def not_written(kind: ObjectKind, subresource: str) -> tuple[Path, ...]:
    """Beginnings of paths that a write through here leaves as they are."""
    if subresource == "status":
        kept: list[Path] = [("f:spec",), ("f:data",)]
        kept += [
            ("f:metadata", f"f:{name}")
            for name in ("labels", "annotations", "finalizers", "ownerReferences")
            if kind.is_custom or name not in kind.status_keeps
        ]
        return tuple(kept)
    return (("f:status",),) if "status" in kind.subresources else ()


def _ownable(fields: Iterable[Path], hidden: tuple[Path, ...]) -> Fields:
    return frozenset(
        path
        for path in fields
        if path and path not in NEVER_OWNED and not any(path[: len(one)] == one for one in hidden)
    )


def after_update(
    managers: Managers,
    old: Any,
    new: Any,
    shape: FieldSchema,
    *,
    manager: Manager,
    now: str,
    hidden: tuple[Path, ...],
) -> Managers:
    """Owners after a create, PUT or patch, that took `old` to `new`: it takes what it changes from
    everybody.
    """
    difference = compare(old, new, shape)
    changed, removed = _ownable(difference.set, hidden), frozenset(difference.removed)
    if not changed and not removed:
        return managers
    after: Managers = {}
    for one, owned in managers.items():
        left = owned.fields - removed if one == manager else owned.fields - removed - changed
        if left:
            after[one] = FieldOwnership(left, owned.time)
    mine = (after[manager].fields if manager in after else NOTHING) | changed
    if mine:
        after[manager] = FieldOwnership(mine, now)
    return after


def applied(
    live: dict[str, Any] | None,
    wish: dict[str, Any],
    managers: Managers,
    shape: FieldSchema,
    *,
    manager: Manager,
    force: bool,
    now: str,
    hidden: tuple[Path, ...],
) -> tuple[dict[str, Any], Managers]:
    """The object and its owners after an apply. Raises FieldConflict."""
    before = managers.get(manager, FieldOwnership(NOTHING, "")).fields
    managers = dict(managers)
    mine = _ownable(fields_of(wish, shape), hidden)
    result: dict[str, Any] = merged(live if live is not None else {}, wish, shape)
    claims = {one: owned.fields for one, owned in managers.items()} | {manager: mine}
    if before:
        still = frozenset().union(*(with_named_parents(fields) for fields in claims.values()))
        given_up = with_named_parents(before) - still - NEVER_OWNED
        result = without(result, shape, given_up) or {}
    difference = compare(live if live is not None else {}, result, shape)
    changed, removed = difference.set, frozenset(difference.removed)
    conflicts = []
    for one in sorted(managers):
        if one == manager:
            continue
        taken = managers[one].fields & changed
        conflicts += [(one, path) for path in sorted(taken)]
        left = managers[one].fields - taken - removed
        if left:
            managers[one] = FieldOwnership(left, managers[one].time)
        else:
            del managers[one]
    if conflicts and not force:
        raise FieldConflict(conflicts)
    if mine:
        old_time = managers[manager].time if manager in managers else ""
        managers[manager] = FieldOwnership(mine, now if mine != before or changed or removed else old_time)
    else:
        managers.pop(manager, None)
    return result, managers


def conflict_text(conflicts: list[tuple[Manager, Path]]) -> str:
    by_manager: dict[Manager, list[Path]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(manager, []).append(path)
    parts = []
    for manager, paths in by_manager.items():
        if len(paths) == 1:
            parts.append(f"conflict with {manager}: {written(paths[0])}")
        else:
            parts.append(f"conflicts with {manager}:\n" + "\n".join(f"- {written(path)}" for path in paths))
    noun = "conflict" if len(conflicts) == 1 else "conflicts"
    return f"Apply failed with {len(conflicts)} {noun}: " + "\n".join(parts)


def owned_before_first_apply(live: dict[str, Any], shape: FieldSchema, hidden: tuple[Path, ...]) -> Fields:
    """All that an object has that nobody is known to own."""
    return _ownable(compare({}, live, shape).set, hidden)
