"""Objects by key, one revision for every write, and the history that watches and old lists read."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from kube.fake.kinds import ObjectKind


class ObjectKey(NamedTuple):
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True)
class StoredChange:
    """A write. `before` is None for a creation, `after` for a deletion."""

    revision: int
    key: ObjectKey
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    at_seconds: float = 0.0


def copied(value: Any) -> Any:
    """Copy JSON; many times as fast as copy.deepcopy."""
    return orjson.loads(orjson.dumps(value))


MOST_HISTORY = 50_000
"""Changes that are remembered: a cluster that runs for days forgets, as a real one does."""


class HistoryExpired(Exception):
    """The history does not reach back that far."""


class ObjectStorage:
    """Holds what it is given and gives copies. `lock` is held by whoever reads and then writes."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.revision = 1
        self.oldest = 0
        """Revisions before it are compacted away."""
        self._objects: dict[ObjectKey, dict[str, Any]] = {}
        self._keys: dict[str, set[ObjectKey]] = {}
        """By resource."""
        self._history: list[StoredChange] = []
        self.seconds: Callable[[], float] = float
        """The time of a change."""

    def get(self, kind: ObjectKind, namespace: str, name: str) -> dict[str, Any] | None:
        found = self._objects.get(ObjectKey(kind.resource, namespace if kind.is_namespaced else "", name))
        return copied(found) if found is not None else None

    def peek(self, key: ObjectKey) -> dict[str, Any] | None:
        """Return the stored item itself, for reading only."""
        return self._objects.get(key)

    def put(self, kind: ObjectKind, item: dict[str, Any]) -> dict[str, Any]:
        """Stores the object under a new resourceVersion, and returns it so."""
        with self.lock:
            self.revision += 1
            stored = copied(item)
            stored["metadata"]["resourceVersion"] = str(self.revision)
            key = self._key(kind, stored)
            self._record(StoredChange(self.revision, key, self._objects.get(key), stored, self.seconds()))
            self._objects[key] = stored
            self._keys.setdefault(key.resource, set()).add(key)
            self.changed.notify_all()
            result: dict[str, Any] = copied(stored)
            return result

    def remove(self, kind: ObjectKind, item: dict[str, Any]) -> None:
        """Remove the object; the deletion's event shows it as it last was, under a revision of its own."""
        with self.lock:
            key = self._key(kind, item)
            before = self._objects.pop(key)
            self._keys[key.resource].discard(key)
            self.revision += 1
            last = copied(before)
            last["metadata"]["resourceVersion"] = str(self.revision)
            self._record(StoredChange(self.revision, key, last, None, self.seconds()))
            self.changed.notify_all()

    def _key(self, kind: ObjectKind, item: dict[str, Any]) -> ObjectKey:
        metadata = item["metadata"]
        return ObjectKey(
            kind.resource, metadata.get("namespace", "") if kind.is_namespaced else "", metadata["name"]
        )

    def _record(self, change: StoredChange) -> None:
        self._history.append(change)
        if len(self._history) > MOST_HISTORY:
            forgotten = self._history[: MOST_HISTORY // 2]
            self.oldest = forgotten[-1].revision
            del self._history[: len(forgotten)]

    def items(self, kind: ObjectKind, namespace: str = "") -> list[dict[str, Any]]:
        """Return items in the order of their keys; an empty namespace is all of them."""
        with self.lock:
            found = self._keys.get(kind.resource, ())
            keys = sorted(key for key in found if namespace in ("", key.namespace))
            return [copied(self._objects[key]) for key in keys]

    def items_at(self, kind: ObjectKind, namespace: str, revision: int) -> list[dict[str, Any]]:
        """Return the items at a revision. Raises HistoryExpired."""
        with self.lock:
            if revision < self.oldest:
                raise HistoryExpired
            objects = {
                key: one
                for key, one in self._objects.items()
                if key.resource == kind.resource and namespace in ("", key.namespace)
            }
            for change in reversed(self._history):
                if change.revision <= revision:
                    break
                if change.key.resource != kind.resource or namespace not in ("", change.key.namespace):
                    continue
                if change.before is None:
                    objects.pop(change.key, None)
                else:
                    objects[change.key] = change.before
            return [copied(objects[key]) for key in sorted(objects)]

    def changes(self, resource: str, namespace: str, after: int) -> Iterator[StoredChange]:
        """Return changes of one kind after a revision, the oldest first. Raises HistoryExpired."""
        with self.lock:
            if after < self.oldest:
                raise HistoryExpired
            first = bisect_right(self._history, after, key=lambda change: change.revision)
            found = [
                change
                for change in self._history[first:]
                if change.key.resource == resource and namespace in ("", change.key.namespace)
            ]
        yield from found

    def look(self, kind: ObjectKind, namespace: str = "") -> list[dict[str, Any]]:
        """Return the stored items themselves, for reading only."""
        with self.lock:
            found = self._keys.get(kind.resource, ())
            keys = sorted(key for key in found if namespace in ("", key.namespace))
            return [self._objects[key] for key in keys]

    def held(self) -> list[tuple[ObjectKey, dict[str, Any]]]:
        """Return all stored items themselves, for reading only."""
        with self.lock:
            return list(self._objects.items())

    def everything(self) -> list[tuple[ObjectKey, dict[str, Any]]]:
        with self.lock:
            return [(key, copied(one)) for key, one in self._objects.items()]

    def compact(self) -> None:
        """Forget the history, as a restarted API server has."""
        with self.lock:
            self.oldest = self.revision
            self._history.clear()
