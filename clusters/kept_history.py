"""Reads of what the fleet did: seconds of the last 15 minutes, minutes of the last 30 days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from clusters.agents import agent_key
from clusters.fleet import FleetSnapshot, WorkerSnapshot
from clusters.history import MINUTES, Measure, known_values, row_value, steps_of, unpacked_minute
from clusters.models import Cluster, FleetDay, FleetMinute, Gpu, Node
from clusters.second_frames import KEEP as SECONDS_KEPT
from clusters.second_frames import SecondFrame, frames, gpu_key
from clusters.states import NodeState
from common import clock
from common.live.redis import NotShared
from serving.protocol import HOST_DEVICE

KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The minutes that end at `at`."""

    at: datetime
    busy: float | None
    in_flight: int
    slots: int
    workers: int
    nodes: Mapping[int, float | None]
    """Busy by the machine's id."""


def kept_values(
    subjects: Sequence[str], measure: Measure, *, since: int, until: int
) -> dict[str, dict[int, float]]:
    """Return what is known by subject and minute since 1970, both ends included.

    Two queries; a byte for each minute of each subject is read, or two of counts, packed.
    """
    found: dict[str, dict[int, float]] = {subject: {} for subject in subjects}
    days = FleetDay.objects.filter(day__gte=since // MINUTES, day__lte=until // MINUTES)
    for chunk in range(0, len(subjects), 500):
        rows = days.filter(subject__in=subjects[chunk : chunk + 500])
        for subject, day, packed in rows.values_list("subject", "day", measure):
            into = found[subject]
            begin = day * MINUTES
            for place, value in known_values(packed, measure, since - begin, until - begin):
                into[begin + place] = value
    recent = FleetMinute.objects.filter(minute__gte=since, minute__lte=until)
    for minute, packed in recent.values_list("minute", "packed"):
        rows_of_minute = unpacked_minute(packed)
        for subject in subjects:
            if subject in rows_of_minute:
                known = row_value(rows_of_minute[subject], measure)
                if known is not None:
                    found[subject][minute] = known
    return found


def kept_steps(
    subject: str, measure: Measure, *, since: datetime, until: datetime, step: timedelta
) -> list[tuple[datetime, float | None]]:
    """Return the mean of each step, oldest first, by its end."""
    minutes = max(int(step / timedelta(minutes=1)), 1)
    first, last = _minute(since) // minutes * minutes, _minute(until)
    values = kept_values([subject], measure, since=first, until=last)[subject]
    return [
        (_moment(minute + 1), value)
        for minute, value in steps_of(values, first=first, last=last, minutes=minutes)
    ]


def kept_seconds(
    subject: str, fleet: FleetSnapshot, *, since: datetime, until: datetime, step: timedelta
) -> list[tuple[datetime, float | None]]:
    """Return how busy a subject of the fleet was at each step of the last 15 minutes; empty while Redis does
    not answer.
    """
    earliest = max(since, clock.now() - SECONDS_KEPT)
    every = max(int(step.total_seconds()), 1)
    try:
        kept = frames(range(int(earliest.timestamp()) // every * every, int(until.timestamp()) + 1, every))
    except NotShared:
        return []
    kind, _, name = subject.partition(":")
    if kind == "gpu":
        key = _key_of_gpu(name)
        return [(frame.at, frame.gpus.get(key, [None])[0]) for frame in kept]
    workers = workers_of(subject, fleet)
    return [(frame.at, _busy(frame, workers)) for frame in kept]


def workers_of(subject: str, fleet: FleetSnapshot) -> list[WorkerSnapshot]:
    """Return the workers of which a subject consists now."""
    kind, _, name = subject.partition(":")
    if kind == "worker":
        return [one for one in fleet.workers if one.row.name == name]
    if kind == "deployment":
        return [one for one in fleet.workers if one.deployment.name == name]
    if kind == "cluster":
        return [one for one in fleet.workers if str(one.deployment.cluster_id) == name]
    nodes = [node for cluster in fleet.clusters for node in cluster.nodes]
    if kind == "node":
        return [one for node in nodes if str(node.row.pk) == name for one in node.workers]
    return [
        one for node in nodes if f"{node.row.cluster_id}:{node.row.group}" == name for one in node.workers
    ]


def busy_history(
    cluster: Cluster, nodes: Sequence[int], *, since: datetime | None = None
) -> list[LoadSample]:
    """Return how busy a cluster and its machines were, ascending: each minute of the last hour, or since a
    time of the last 30 days in at most 360 steps.
    """
    now = clock.now()
    since = max(since or now - timedelta(hours=1), now - KEPT)
    step = timedelta(minutes=max(1, int((now - since) / timedelta(minutes=360))))
    minutes = int(step / timedelta(minutes=1))
    first, last = _minute(since) // minutes * minutes, _minute(now)
    own = f"cluster:{cluster.pk}"

    def steps(measure: Measure, subject: str = own) -> list[float | None]:
        values = kept_values([subject], measure, since=first, until=last)[subject]
        return [value for _, value in steps_of(values, first=first, last=last, minutes=minutes)]

    of_nodes = kept_values([f"node:{pk}" for pk in nodes], "busy", since=first, until=last)
    by_node = {
        pk: [v for _, v in steps_of(of_nodes[f"node:{pk}"], first=first, last=last, minutes=minutes)]
        for pk in nodes
    }
    ends = [end for end, _ in steps_of({}, first=first, last=last, minutes=minutes)]
    columns = zip(ends, *(steps(name) for name in ("busy", "in_flight", "slots", "workers")), strict=True)
    return [
        LoadSample(
            _moment(end + 1),
            busy,
            round(in_flight or 0),
            round(slots or 0),
            round(workers),
            {pk: values[place] for pk, values in by_node.items()},
        )
        for place, (end, busy, in_flight, slots, workers) in enumerate(columns)
        if workers is not None
    ]


def nodes_at(nodes: Sequence[int], at: datetime) -> dict[int, tuple[float | None, int]]:
    """Return how busy each machine was in a minute, and its `HistoryMark`; those not known are left out."""
    subjects, minute = [f"node:{pk}" for pk in nodes], _minute(at)
    busy = kept_values(subjects, "busy", since=minute, until=minute)
    marks = kept_values(subjects, "mark", since=minute, until=minute)
    found: dict[int, tuple[float | None, int]] = {}
    for pk in nodes:
        mark = marks[f"node:{pk}"].get(minute)
        if mark is not None:
            found[pk] = (busy[f"node:{pk}"].get(minute), int(mark))
    return found


def known_gpus() -> list[tuple[int, str, str, int]]:
    """Return machine, uuid, `gpu_key` and bytes of memory of every GPU that is present."""
    rows = Gpu.objects.filter(state="present").values_list(
        "node_id", "uuid", "node__cluster_id", "node__uid", "memory_bytes"
    )
    return [
        (node, uuid, gpu_key(agent_key(cluster, uid), uuid), size) for node, uuid, cluster, uid, size in rows
    ]


def known_hosts() -> dict[int, str]:
    """Return the `gpu_key` of each machine itself, by its id."""
    rows = Node.objects.exclude(state=NodeState.GONE).values_list("pk", "cluster_id", "uid")
    return {pk: gpu_key(agent_key(cluster, uid), HOST_DEVICE) for pk, cluster, uid in rows}


def _key_of_gpu(name: str) -> str:
    """`name`: id of the machine and uuid."""
    node_pk, _, uuid = name.partition(":")
    row = Node.objects.filter(pk=node_pk).values_list("cluster_id", "uid").first()
    return gpu_key(agent_key(*row), uuid) if row else ""


def _busy(frame: SecondFrame, workers: Sequence[WorkerSnapshot]) -> float | None:
    known = [frame.workers[one.row.uid] for one in workers if one.row.uid in frame.workers]
    slots = sum(one[3] for one in known)
    return sum(one[0] * one[3] for one in known) / slots if slots else None


def _minute(at: datetime) -> int:
    return int(at.timestamp() // 60)


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)
