"""The fleet minute by minute, as columns of small numbers: a day of one figure is at most 2.9 kB. Pure."""

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise, zip_longest
from math import ceil
from typing import Any, Literal

import orjson

from clusters.fleet import FleetSnapshot, NodeSnapshot, WorkerSnapshot
from clusters.second_frames import SecondFrame
from clusters.states import Alert, NodeState

MINUTES = 24 * 60
Measure = Literal["busy", "memory", "mark", "in_flight", "queue", "slots", "workers", "gpu_memory"]
MEASURES: tuple[Measure, ...] = (
    "busy", "memory", "mark", "in_flight", "queue", "slots", "workers", "gpu_memory",
)  # fmt: skip
"""In the order of a packed minute; minutes of an older release lack the last ones."""
SHARES = frozenset({"busy", "memory"})
"""Kept as whole percents."""
WIDE = frozenset({"in_flight", "queue", "slots", "workers", "gpu_memory"})
"""Kept in two bytes, 65,534 at most; the others in one, 254 at most."""


GPU_MEMORY_STEP_MIB = 16
"""Unit of `gpu_memory`, so that the memory of any GPU fits into two bytes; rounded up."""


class HistoryMark(IntEnum):
    """State of a machine or worker that matters more than how busy it was."""

    FINE = 0
    CORDONED = 1
    SILENT = 2
    GONE = 3
    STUCK = 4
    LOST = 5
    FAULTY = 6


@dataclass(frozen=True, slots=True)
class MinuteFigures:
    """Figures of a subject in one minute; None where a figure is not known."""

    busy: float | None = None
    memory: float | None = None
    """Of a GPU, or of a machine: share in use."""
    mark: int | None = None
    in_flight: float | None = None
    queue: float | None = None
    slots: float | None = None
    workers: float | None = None
    gpu_memory: float | None = None
    """MiB that a worker holds, or the largest of a deployment's workers."""

    @property
    def row(self) -> list[int | None]:
        """Return the figures as whole numbers in the order of `MEASURES`."""
        found: list[int | None] = []
        for name in MEASURES:
            value = getattr(self, name)
            if value is not None:
                if name == "gpu_memory":
                    value = ceil(value / GPU_MEMORY_STEP_MIB)
                value = max(0, round(value * 100 if name in SHARES else value))
                value = min(value, 65_534 if name in WIDE else 254)
            found.append(value)
        return found


Minute = Mapping[str, Sequence[int | None]]
"""Rows of `MinuteFigures` by subject: `worker:chat-0`, `node:7`, `gpu:7:GPU-1`, `group:2:online`,
`cluster:2`, `deployment:chat-1`."""


def packed_minute(minute: Minute) -> bytes:
    return zlib.compress(orjson.dumps(minute), 6)


def unpacked_minute(packed: bytes | memoryview) -> Minute:
    found: Minute = orjson.loads(zlib.decompress(packed))
    return found


def with_values(
    packed: bytes | memoryview | None, measure: Measure, values: Mapping[int, int | None]
) -> bytes | None:
    """Return a day's column with these values by minute of the day; None where nothing is known."""
    column = _column(packed, measure)
    for minute, value in values.items():
        if value is not None:
            column[minute] = value
    unknown = _unknown(measure)
    if all(value == unknown for value in column):
        return None
    return zlib.compress(column.tobytes(), 9)


def known_values(
    packed: bytes | memoryview | None, measure: Measure, first: int, last: int
) -> Iterator[tuple[int, float]]:
    """Yield what a day's column knows of these minutes of the day, both ends included; shares as 0..1."""
    if packed is None:
        return
    unknown = _unknown(measure)
    scale = _scale(measure)
    for minute, value in enumerate(_column(packed, measure)[max(first, 0) : last + 1], max(first, 0)):
        if value != unknown:
            yield minute, value * scale


def figures_of_minute(
    frames: Sequence[SecondFrame],
    fleet: FleetSnapshot,
    gpus: Iterable[tuple[int, str, str, int]] = (),
    hosts: Mapping[int, str] | None = None,
) -> dict[str, list[int | None]]:
    """Return the rows of all subjects. `gpus`: machine, uuid, `gpu_key`, bytes of memory; `hosts`: `gpu_key`
    of each machine itself.
    """
    means = _means(frame.workers for frame in frames)
    used = _means(frame.gpus for frame in frames)
    memory = {pk: used[key][1] for pk, key in (hosts or {}).items() if key in used}
    found: dict[str, list[int | None]] = {}
    for cluster in fleet.clusters:
        groups: dict[str, list[WorkerSnapshot]] = {}
        for node in cluster.nodes:
            of_node = _load(node.workers, means, mark=mark_of(node), memory=memory.get(node.row.pk))
            found[f"node:{node.row.pk}"] = of_node
            groups.setdefault(node.row.group, []).extend(node.workers)
        for group, workers in groups.items():
            found[f"group:{cluster.row.pk}:{group}"] = _load(workers, means)
        everyone: list[WorkerSnapshot] = []
        for deployment in cluster.deployments:
            found[f"deployment:{deployment.row.name}"] = _load(deployment.workers, means)
            everyone += deployment.workers
        found[f"cluster:{cluster.row.pk}"] = _load(everyone, means)
        for worker in everyone:
            found[f"worker:{worker.row.name}"] = _load([worker], means, mark=_mark_of_worker(worker))
    for node_pk, uuid, key, total in gpus:
        if key in used:
            use, held = used[key]
            figures = MinuteFigures(use, held / total if held is not None and total else None)
            found[f"gpu:{node_pk}:{uuid}"] = figures.row
    return found


def mark_of(node: NodeSnapshot) -> HistoryMark:
    if node.row.state == NodeState.GONE:
        return HistoryMark.GONE
    if node.row.state != NodeState.READY or node.load.lost:
        return HistoryMark.LOST
    if node.row.is_faulty:
        return HistoryMark.FAULTY
    if node.load.stuck:
        return HistoryMark.STUCK
    if node.agent_silent_since:
        return HistoryMark.SILENT
    return HistoryMark.CORDONED if node.row.is_cordoned else HistoryMark.FINE


def _mark_of_worker(worker: WorkerSnapshot) -> HistoryMark:
    return {Alert.LOST: HistoryMark.LOST, Alert.STUCK: HistoryMark.STUCK}.get(
        Alert(worker.alert), HistoryMark.FINE
    )


def steps_of(
    values: Mapping[int, float], *, first: int, last: int, minutes: int
) -> list[tuple[int, float | None]]:
    """Return the mean of each step of so many minutes, by its last minute; None where nothing is known."""
    edges = range(first, last + minutes, minutes)
    found: list[tuple[int, float | None]] = []
    for begin, end in pairwise(edges):
        known = [values[minute] for minute in range(begin, end) if minute in values]
        found.append((end - 1, sum(known) / len(known) if known else None))
    return found


def _load(
    workers: Sequence[WorkerSnapshot],
    means: Mapping[str, Sequence[float | None]],
    *,
    mark: int | None = None,
    memory: float | None = None,
) -> list[int | None]:
    known = [means[one.row.uid] for one in workers if one.row.uid in means]
    held = [size for one in known if len(one) > 4 and (size := one[4]) is not None]
    slots = sum(one[3] or 0.0 for one in known)
    at_work = sum((one[0] or 0.0) * (one[3] or 0.0) for one in known)
    return MinuteFigures(
        busy=at_work / slots if slots else None,
        memory=memory,
        mark=mark,
        in_flight=sum(one[1] or 0.0 for one in known) if known else None,
        queue=sum(one[2] or 0.0 for one in known) if known else None,
        slots=slots if known else None,
        workers=len(workers),
        gpu_memory=max(held, default=None),
    ).row


def _means(frames: Iterable[Mapping[str, Sequence[float | None]]]) -> dict[str, list[float | None]]:
    sums: dict[str, list[tuple[float, int]]] = {}
    for frame in frames:
        for name, values in frame.items():
            # A process of an older release says less of a worker.
            pairs = zip_longest(sums.get(name) or (), values)
            sums[name] = [
                before if value is None else (before[0] + value, before[1] + 1)
                for before, value in ((pair or (0.0, 0), value) for pair, value in pairs)
            ]
    return {
        name: [total / count if count else None for total, count in pairs] for name, pairs in sums.items()
    }


def _column(packed: bytes | memoryview | None, measure: Measure) -> "array[int]":
    code = "H" if measure in WIDE else "B"
    if packed is None:
        return array(code, [_unknown(measure)] * MINUTES)
    column = array(code)
    column.frombytes(zlib.decompress(packed))
    return column


def _unknown(measure: Measure) -> int:
    return 65_535 if measure in WIDE else 255


def row_value(row: Sequence[Any], measure: Measure) -> float | None:
    place = MEASURES.index(measure)
    value: float | None = row[place] if place < len(row) else None
    return value * _scale(measure) if value is not None else None


def _scale(measure: Measure) -> float:
    """Return by what a kept number is multiplied."""
    return 0.01 if measure in SHARES else GPU_MEMORY_STEP_MIB if measure == "gpu_memory" else 1
