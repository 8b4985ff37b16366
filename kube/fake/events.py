"""Events, as those who write them do: told again counts up, and who tells too much is not heard any more.

What is counted, joined and dropped: client-go, tools/record/events_cache.go (`EventCorrelator`). Those of the
scheduler are of events.k8s.io, which have a series in place of a count (tools/events/event_broadcaster.go).
"""

from dataclasses import dataclass, field
from typing import Any

from kube.fake.clock import SimulatedClock
from kube.fake.kinds import ObjectKind
from kube.fake.storage import ObjectKey, ObjectStorage

Object = dict[str, Any]
EVENTS = "events"
NORMAL, WARNING = "Normal", "Warning"
SCHEDULER = "default-scheduler"
SIMILAR = 10
SIMILAR_SECONDS = 600.0
"""So many messages of one reason about one object within this; later ones are one event."""
COMBINED = "(combined from similar events): "
BURST = 25
SECONDS_FOR_ANOTHER = 300.0
"""After a burst of events about one object, one more in this time."""
SERIES_SECONDS = 360.0
"""After which the same again is an event of its own."""
LIFE_SECONDS = 3600.0
EXPIRE_EVERY_SECONDS = 60.0
_FIRST_NUMBER = 0x18EA_5200_0000_0000


@dataclass
class _Similar:
    last: float
    messages: set[str] = field(default_factory=set)


@dataclass
class _Budget:
    left: float
    at: float


class Recorder:
    """Records events; those of objects without a namespace in the cluster are lost, as in a real one."""

    def __init__(self, storage: ObjectStorage, clock: SimulatedClock, kind: ObjectKind) -> None:
        self._storage = storage
        self._clock = clock
        self._kind = kind
        self._number = _FIRST_NUMBER
        self._told: dict[tuple[str, ...], tuple[str, str]] = {}
        self._similar: dict[tuple[str, ...], _Similar] = {}
        self._budgets: dict[tuple[str, ...], _Budget] = {}
        self._expire_at = EXPIRE_EVERY_SECONDS

    def say(
        self,
        source: str,
        item: Object,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        field_path: str = "",
        host: str = "",
        is_named_only: bool = False,
    ) -> None:
        """`source`: the component. `is_named_only`: of an object that its controller knows by its name."""
        with self._storage.lock:
            about = _about(item, field_path, is_named_only=is_named_only)
            if not self._is_heard(about) or not self._may_speak((source, host, *_identity(about))):
                return
            kind = WARNING if warning else NORMAL
            group = (source, host, *_identity(about), kind, reason)
            message, key = self._combined(group, message)
            if self._counted_up(key, message):
                return
            now = self._clock.stamp()
            self._store(
                key,
                about,
                {
                    "reason": reason,
                    "message": message,
                    "source": {"component": source} | ({"host": host} if host else {}),
                    "firstTimestamp": now,
                    "lastTimestamp": now,
                    "count": 1,
                    "type": kind,
                    "eventTime": None,
                    "reportingComponent": source,
                    "reportingInstance": host,
                },
            )

    def say_scheduling(
        self, pod: Object, reason: str, action: str, message: str, *, warning: bool = False
    ) -> None:
        with self._storage.lock:
            about = _about(pod, "")
            if not self._is_heard(about):
                return
            key = (SCHEDULER, *_identity(about), reason, action, message)
            now = self._clock.exact_stamp()
            if (before := self._known(key)) is not None and self._in_series(before):
                count = (before.get("series") or {}).get("count", 1) + 1
                self._storage.put(self._kind, before | {"series": {"count": count, "lastObservedTime": now}})
                return
            self._store(
                key,
                about,
                {
                    "reason": reason,
                    "message": message,
                    "source": {},
                    "firstTimestamp": None,
                    "lastTimestamp": None,
                    "type": WARNING if warning else NORMAL,
                    "eventTime": now,
                    "action": action,
                    "reportingComponent": SCHEDULER,
                    "reportingInstance": f"{SCHEDULER}-fake",
                },
            )

    def expire(self) -> None:
        """Remove events that were not repeated for an hour."""
        if self._clock.seconds < self._expire_at:
            return
        self._expire_at = self._clock.seconds + EXPIRE_EVERY_SECONDS
        for one in self._storage.look(self._kind):
            if self._clock.seconds - self._clock.seconds_of(_last_told(one)) >= LIFE_SECONDS:
                self._storage.remove(self._kind, one)

    def _is_heard(self, about: Object) -> bool:
        namespace = self._storage.peek(ObjectKey("namespaces", "", about.get("namespace") or "default"))
        return namespace is not None and "deletionTimestamp" not in namespace["metadata"]

    def _may_speak(self, who: tuple[str, ...]) -> bool:
        now = self._clock.seconds
        budget = self._budgets.setdefault(who, _Budget(BURST, now))
        budget.left = min(BURST, budget.left + (now - budget.at) / SECONDS_FOR_ANOTHER)
        budget.at = now
        if budget.left < 1:
            return False
        budget.left -= 1
        return True

    def _combined(self, group: tuple[str, ...], message: str) -> tuple[str, tuple[str, ...]]:
        now = self._clock.seconds
        similar = self._similar.get(group)
        if similar is None or now - similar.last > SIMILAR_SECONDS:
            similar = self._similar[group] = _Similar(now)
        similar.last = now
        similar.messages.add(message)
        if len(similar.messages) < SIMILAR:
            return message, (*group, message)
        return COMBINED + message, group

    def _known(self, key: tuple[str, ...]) -> Object | None:
        place = self._told.get(key)
        return self._storage.get(self._kind, *place) if place else None

    def _counted_up(self, key: tuple[str, ...], message: str) -> bool:
        before = self._known(key)
        if before is None:
            return False
        count = before["count"] + 1
        change = {"count": count, "lastTimestamp": self._clock.stamp(), "message": message}
        self._storage.put(self._kind, before | change)
        return True

    def _in_series(self, before: Object) -> bool:
        last = (before.get("series") or {}).get("lastObservedTime") or before["eventTime"]
        return self._clock.seconds - self._clock.seconds_of(last) < SERIES_SECONDS

    def _store(self, key: tuple[str, ...], about: Object, body: Object) -> None:
        self._number += 1
        namespace, name = about.get("namespace") or "default", f"{about['name']}.{self._number:016x}"
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"00000000-0000-4000-8000-{self._number & 0xFFFF_FFFF_FFFF:012x}",
            "creationTimestamp": self._clock.stamp(),
        }
        item = {"kind": "Event", "apiVersion": "v1", "metadata": metadata, "involvedObject": about}
        self._storage.put(self._kind, item | body)
        self._told[key] = (namespace, name)


def _about(item: Object, field_path: str, *, is_named_only: bool = False) -> Object:
    metadata = item["metadata"]
    kind, version = item.get("kind", ""), item.get("apiVersion", "v1")
    about = {"kind": kind, "namespace": metadata.get("namespace"), "name": metadata["name"]}
    about |= {"uid": None if is_named_only else metadata.get("uid"), "apiVersion": version}
    if kind != "Node" and not is_named_only:
        about["resourceVersion"] = metadata.get("resourceVersion")
    about["fieldPath"] = field_path
    return {key: one for key, one in about.items() if one}


def _identity(about: Object) -> tuple[str, ...]:
    return tuple(str(about.get(key, "")) for key in ("kind", "namespace", "name", "uid", "fieldPath"))


def _last_told(event: Object) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    last = series or event.get("lastTimestamp") or event.get("eventTime")
    return str(last or event["metadata"]["creationTimestamp"])
