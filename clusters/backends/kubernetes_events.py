"""An Event of Kubernetes about a machine or a pod of ours, in our words."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MOST_TOLD = 20
"""Of one machine or pod, the latest."""
LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    kind: str
    """`Node` or `Pod`."""
    name: str
    reason: str
    message: str
    is_warning: bool
    count: int
    first_at: datetime | None
    last_at: datetime | None
    """None: it does not say when."""
    by: str = ""
    """The component that says so: `kubelet`."""
    uid: str = ""
    """Of what it is about: another one may have had the same name. Kubelets give a machine's name here."""
    host: str = ""
    """The machine whose component says so; empty: not said."""

    @property
    def about(self) -> str:
        return about(self.kind, self.name)


def about(kind: str, name: str) -> str:
    """The key under which it is handed on: names of pods hardly meet between namespaces. What was told of a
    former one of that name is left out by whoever knows the `uid` of the present one."""
    return f"{kind} {name}"


def packed(told: Iterable[KubernetesEvent]) -> bytes:
    """The latest of them, as processes hand them to each other."""
    latest = sorted(told, key=lambda one: one.last_at.timestamp() if one.last_at else 0.0, reverse=True)
    return json.dumps([_fields(one) for one in latest[:MOST_TOLD]], ensure_ascii=False).encode()


def unpacked(value: bytes) -> list[KubernetesEvent]:
    return [
        KubernetesEvent(
            kind, name, reason, message, is_warning, count, _time(first), _time(last), by, uid, host
        )
        for kind, name, reason, message, is_warning, count, first, last, by, uid, host in json.loads(value)
    ]


def _fields(told: KubernetesEvent) -> list[Any]:
    times = (one.isoformat() if one else "" for one in (told.first_at, told.last_at))
    said = (told.kind, told.name, told.reason, told.message, told.is_warning, told.count)
    return [*said, *times, told.by, told.uid, told.host]


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
