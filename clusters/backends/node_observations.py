"""Observations of machines as processes share them: a digest, and the rest for those who need it.

One who knows what was seen before compares digests and reads the few that differ: of thousands of machines
hardly one changes between two looks.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clusters.backends.base import (
    CordonMark,
    GpuSharingMode,
    NodeCondition,
    ObservedGpu,
    ObservedNode,
    UnreadNode,
)
from clusters.backends.placement import Taint, TaintEffect

DIGEST_BYTES = 16
CORDON_BYTES = 8
_HEAD_BYTES = DIGEST_BYTES + CORDON_BYTES
_NO_CORDON = bytes(CORDON_BYTES)
Seen = ObservedNode | UnreadNode


@dataclass(frozen=True, slots=True)
class NodeObservation:
    uid: str
    digest: str
    """The same for what is the same, in whatever process it was made."""
    cordon_digest: str
    """Of its cordon alone; empty: it has none."""
    read: Callable[[], Seen]


def sightings_of(nodes: Iterable[Seen]) -> tuple[NodeObservation, ...]:
    return tuple(_sighting(one) for one in nodes)


def _sighting(seen: Seen) -> NodeObservation:
    cordon = None if isinstance(seen, UnreadNode) else seen.cordon
    return NodeObservation(seen.uid, digest_of(seen), cordon_digest(cordon), lambda: seen)


def digest_of(seen: Seen) -> str:
    return _digest(_text(seen)).hex()


def packed(seen: Seen) -> bytes:
    """Some few hundred bytes."""
    text = _text(seen)
    cordon = None if isinstance(seen, UnreadNode) else seen.cordon
    head = _digest(text) + (bytes.fromhex(cordon_digest(cordon)) or _NO_CORDON)
    return head + zlib.compress(text, 1)


def sighting_of(uid: str, value: bytes) -> NodeObservation:
    """Return the observation of a packed node, which is unpacked when read."""
    cordon = value[DIGEST_BYTES:_HEAD_BYTES]
    told = "" if cordon == _NO_CORDON else cordon.hex()
    return NodeObservation(uid, value[:DIGEST_BYTES].hex(), told, lambda: unpacked(value))


def cordon_digest(cordon: CordonMark | None) -> str:
    if cordon is None:
        return ""
    text = json.dumps(_cordon_fields(cordon), ensure_ascii=False).encode()
    return hashlib.blake2b(text, digest_size=CORDON_BYTES).hexdigest()


def unpacked(value: bytes) -> Seen:
    fields: list[Any] = json.loads(zlib.decompress(value[_HEAD_BYTES:]))
    if len(fields) == 3:
        return UnreadNode(uid=fields[0], name=fields[1], problem=fields[2])
    uid, name, address, cpus, memory, boot_id, provider_id, labels, *rest = fields
    taints, allocatable, capacity, told, cordon, gpus, problem = rest
    return ObservedNode(
        uid=uid,
        name=name,
        address=address,
        cpu_count=cpus,
        memory_bytes=memory,
        boot_id=boot_id,
        provider_id=provider_id,
        labels=dict(labels),
        taints=tuple(Taint(key, TaintEffect(effect), value) for key, effect, value in taints),
        allocatable=dict(allocatable),
        capacity=dict(capacity),
        conditions=tuple(NodeCondition(*one) for one in told),
        cordon=_cordon(cordon),
        gpus=None if gpus is None else tuple(_gpu(*one) for one in gpus),
        problem=problem,
    )


def _text(seen: Seen) -> bytes:
    return json.dumps(_fields(seen), separators=(",", ":"), ensure_ascii=False).encode()


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def _fields(seen: Seen) -> list[Any]:
    if isinstance(seen, UnreadNode):
        return [seen.uid, seen.name, seen.problem]
    cordon, gpus = seen.cordon, seen.gpus
    return [
        seen.uid,
        seen.name,
        seen.address,
        seen.cpu_count,
        seen.memory_bytes,
        seen.boot_id,
        seen.provider_id,
        sorted(seen.labels.items()),
        [(one.key, str(one.effect), one.value) for one in seen.taints],
        sorted(seen.allocatable.items()),
        sorted(seen.capacity.items()),
        [(one.type, one.status, one.reason, one.message) for one in seen.conditions],
        cordon and _cordon_fields(cordon),
        None
        if gpus is None
        else [
            (
                one.uuid,
                one.index,
                one.name,
                one.memory_bytes,
                one.driver,
                one.serial,
                one.pci_bus_id,
                str(one.sharing),
            )
            for one in gpus
        ],
        seen.problem,
    ]


def _cordon_fields(cordon: CordonMark) -> tuple[str, str, str | None]:
    since = cordon.since.astimezone(UTC).isoformat() if cordon.since else None
    return cordon.by, cordon.reason, since


def _cordon(fields: list[Any] | None) -> CordonMark | None:
    if fields is None:
        return None
    by, reason, since = fields
    return CordonMark(by, reason, since and datetime.fromisoformat(since))


def _gpu(
    uuid: str, index: int, name: str, memory: int, driver: str, serial: str, bus: str, sharing: str
) -> ObservedGpu:
    return ObservedGpu(
        uuid=uuid,
        index=index,
        name=name,
        memory_bytes=memory,
        driver=driver,
        serial=serial,
        pci_bus_id=bus,
        sharing=GpuSharingMode(sharing),
    )
